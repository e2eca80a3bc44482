"""Tables as migration tools and object mappers create them: lengths, defaults and checks, over JDBC."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jdbc.jvm import Facts, Jvm
from tests.support.processes.servers import GatewayProcess

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def empty_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a gateway without tables."""
    root: Path = tmp_path_factory.mktemp("definitions")
    with GatewayProcess(root, "--http-port", "off") as gateway:
        yield f"jdbc:arrow-flight-sql://{gateway.uri.removeprefix('grpc://')}/?useEncryption=false"


@pytest.fixture(scope="module")
def facts(jvm: Jvm, empty_url: str) -> Facts:
    return jvm.run("Definitions", empty_url, f"changes_{jvm.version.replace('.', '_')}")


def test_the_table_is_made_and_altered(facts: Facts) -> None:
    assert [facts["CREATE TABLE"], facts["ALTER TABLE"]] == [0, 0]


def test_the_driver_tells_lengths(facts: Facts) -> None:
    sizes = {row["COLUMN_NAME"]: (row["TYPE_NAME"], row["COLUMN_SIZE"]) for row in facts["columns"]}
    assert sizes == {
        "id": ("VARCHAR", 36),
        "author": ("VARCHAR", 10),
        "code": ("VARCHAR", 2),
        "picture": ("BYTEA", 16),
        "price": ("DECIMAL", 10),
        "made": ("TIMESTAMP", 26),
        "note": ("VARCHAR", 20),
    }


def test_the_driver_tells_no_defaults_and_information_schema_does(facts: Facts) -> None:
    assert {row["COLUMN_DEF"] for row in facts["columns"]} == {None}
    assert facts["defaults"] == [
        ["id", None, 36],
        ["author", "'nobody'", 10],
        ["code", None, 2],
        ["picture", None, None],
        ["price", "0", None],
        ["made", "CURRENT_TIMESTAMP", None],
        ["note", None, 20],
    ]


def test_constraints_are_listed(facts: Facts, jvm: Jvm) -> None:
    key = f"changes_{jvm.version.replace('.', '_')}_pkey"
    assert facts["constraints"] == [[key, "PRIMARY KEY"], ["ck_price", "CHECK"]]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("a bound text that is too long", "the row with id = '2' has 11 there ('0123456789a')"),
        ("a batch with a text that is too long", "the row with id = '0123456789a' has 11 there"),
        ("a row that a check refuses", "the row with id = '3' violates constraint 'ck_price'"),
    ],
)
def test_what_violates_a_rule_is_refused_whole(facts: Facts, name: str, complaint: str) -> None:
    assert complaint in facts.failure(name).text


def test_defaults_are_applied(facts: Facts) -> None:
    assert facts["a bound text that fits"] == facts["a row of defaults"] == 1
    rows = [[row[0], row[1], float(row[2]), row[3]] for row in facts["rows"]]
    assert rows == [["1", "0123456789", 0.0, True], ["4", "nobody", 0.0, True]]
