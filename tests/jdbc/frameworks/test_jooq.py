"""jOOQ 3.19: tables are made, altered, written, read and described."""

import pytest

from tests.jdbc.jvm import Facts, Failure, Jvm

pytestmark = [pytest.mark.slow, pytest.mark.soak]


@pytest.fixture(scope="module")
def facts(frameworks_jvm: Jvm, frameworks_url: str) -> Facts:
    return frameworks_jvm.run("Jooq", frameworks_url)


def test_every_statement_works_but_the_one_that_a_check_refuses(facts: Facts) -> None:
    failed = {name: value.text for name, value in facts.all().items() if isinstance(value, Failure)}
    assert failed.keys() == {"a row that a check refuses"}, failed
    assert "violates constraint 'pages_prices'" in failed["a row that a check refuses"]


def test_statements_with_inlined_values_tell_how_many_rows_they_change(facts: Facts) -> None:
    written = ("insert", "upsert", "ignore", "merge", "update", "delete")
    assert {name: facts[name] for name in written} == {
        "insert": 1,
        "upsert": 2,
        "ignore": 1,
        "merge": 2,
        "update": 2,
        "delete": 2,
    }
    assert facts["insert returning"] == [[5, "none"]]


def test_rows_are_those_that_were_written(facts: Facts) -> None:
    assert facts["rows"] == [
        [1, "/'a\\b", "2.50"],
        [2, "/b", None],
        [3, "/c", "8.00"],
        [4, "/merged", None],
        [5, "/e", None],
        [6, "/f", None],
    ]
    assert facts["values"] == [
        "2026-02-28T23:59:59.123456",
        "2026-02-28",
        True,
        "00000000-0000-0001-0000-000000000002",
    ]
    assert facts["bytes"] == "0x0027ff"


def test_queries_find_rows_by_patterns_groups_and_pages(facts: Facts) -> None:
    assert facts["patterns"] == [1, 4]
    assert facts["patterns, bound"] == [1]
    assert facts["groups"] == [[None, 5]]
    assert facts["page"] == [3, 4]
    assert facts["view"] == 6


def test_tables_are_described(facts: Facts) -> None:
    key_size, key, columns = facts["described"]
    assert (key_size, key) == (1, "id")
    assert [column.split(" ")[0] for column in columns] == [
        *("id", "path", "price", "made", "day", "open", "picture", "code", "remark")
    ]
    assert {"id bigint", "path varchar(20)", "day date", "remark varchar(50)"} <= set(columns)


def test_the_documentation_runs_as_it_stands(frameworks_jvm: Jvm, frameworks_url: str) -> None:
    printed = frameworks_jvm.run("Documented", "DocumentedjOOQ", frameworks_url)["printed"]
    assert printed == "1\n[{page=/, sum=12.0}, {page=/docs, sum=null}]\n"
