"""Hibernate 7.4, with the dialect in examples/hibernate: tables, entities, HQL and versions."""

import pytest

from tests.jdbc.jvm import Facts, Failure, Jvm

pytestmark = [pytest.mark.slow, pytest.mark.soak]

# What fails, and with what text.
FAILING = {
    "persist a title that is too long": "column 'title' takes at most 20 char",
    "update what is stale": "Row was already updated or deleted by another transaction",
    "lock": "Locking rows is not supported",
}


@pytest.fixture(scope="module")
def facts(frameworks_jvm: Jvm, frameworks_url: str) -> Facts:
    return frameworks_jvm.run("Hibernate", frameworks_url)


def test_what_fails_says_why_and_the_rest_works(facts: Facts) -> None:
    failed = {name: value.text for name, value in facts.all().items() if isinstance(value, Failure)}
    assert failed.keys() == FAILING.keys(), failed
    assert [name for name, text in FAILING.items() if text not in failed[name]] == [], failed


def test_tables_are_made_once_and_altered_without_a_warning(facts: Facts) -> None:
    assert facts["warnings"] == []


def test_entities_are_found_as_they_were_persisted(facts: Facts) -> None:
    assert facts["found"] == [
        *(0, "One", "1.50", "LARGE", "SMALL", "2026-02-28T23:59:59.123", "2026-02-28T23:59:59.123Z"),
        *("2026-02-28", "01:02:03", True, 0.25, "0x00ff", "00000000-0000-0001-0000-000000000002"),
        *("long", "Ann"),
    ]
    assert facts["found without values"] == [0, "Book 2", *[None] * 7, False, *[None] * 5]


def test_hql_finds_groups_and_pages(facts: Facts) -> None:
    assert facts["by conditions"] == [1]
    assert facts["by a pattern"] == [2, 3, 4]
    assert facts["groups"] == [["Ann", 1, "1.50"], [None, 3, None]]
    assert facts["page"] == [2, 3]


def test_changes_count_their_rows_and_versions(facts: Facts) -> None:
    assert facts["updated"] == [1, "New"]
    assert facts["update by HQL"] == 2
    assert facts["delete by HQL"] == 1
    assert facts["left"] == [[1, 1.25], [2, 1.0]]


def test_the_documentation_runs_as_it_stands(frameworks_jvm: Jvm, frameworks_url: str) -> None:
    printed = frameworks_jvm.run("Documented", "DocumentedHibernate", frameworks_url)["printed"]
    assert printed == "[/docs]\n"
