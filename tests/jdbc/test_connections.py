"""Connections over JDBC: their state, their session options, what pools do to them."""

import pytest

from tests.jdbc.jvm import Facts, Jvm

pytestmark = pytest.mark.slow

# What the driver tells of a connection, without asking the gateway.
STATE = {
    "valid": True,
    "auto-commit": True,
    "read-only": True,
    "isolation": 0,  # TRANSACTION_NONE
    "catalog": None,
    "schema": None,
    "warnings": None,
    "network timeout": 0,
    "scrollable": 1004,  # TYPE_SCROLL_INSENSITIVE, though rows are only read forward
}
ACCEPTED = (
    "setCatalog",
    "setSchema",
    "setReadOnly",
    "setAutoCommit(true)",
    "setAutoCommit(false)",
    "commit",
    "rollback",
    "setTransactionIsolation(NONE)",
    "setTransactionIsolation(SERIALIZABLE)",
    "clearWarnings",
    "unwrap",
)
NOT_IN_THE_DRIVER = ("type map", "native SQL", "setSavepoint", "prepareCall", "createBlob", "abort")


@pytest.fixture(scope="module")
def facts(jvm: Jvm, url: str) -> Facts:
    return jvm.run("Connections", url)


def test_the_state_of_a_connection_is_told(facts: Facts) -> None:
    assert {name: facts[name] for name in STATE} == STATE


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_changes_nothing_is_accepted(facts: Facts, name: str) -> None:
    assert facts[name] == "done"


@pytest.mark.parametrize("name", NOT_IN_THE_DRIVER)
def test_what_the_driver_does_not_have_is_refused_by_it(facts: Facts, name: str) -> None:
    assert facts.failure(name).kind == "java.sql.SQLFeatureNotSupportedException"


def test_a_connection_works_on_after_all_that(facts: Facts) -> None:
    assert facts["works on"] == [[1]]


def test_what_is_set_stays_with_the_connection(facts: Facts) -> None:
    assert facts["SET"] == [False, 0]
    assert facts["SHOW"] == [["flushed"]]
    assert facts["who and where"] == [["anonymous", "main"]]


def test_connections_are_opened_and_closed_again_and_again(facts: Facts) -> None:
    assert facts["reopened"] == 5
    assert facts["closed"] is True
    assert facts["without parameters in the URL"] is True
    assert facts["pooled"] == 3


def test_a_connection_that_is_closed_before_its_result_complains(facts: Facts) -> None:
    assert "Memory was leaked" in facts.failure("closed before its result").text


@pytest.mark.parametrize("name", ["nobody listens", "encryption of a server that has none"])
def test_a_server_that_cannot_be_reached_is_an_sql_exception(facts: Facts, name: str) -> None:
    failure = facts.failure(name)
    assert failure.kind == "java.sql.SQLException"
    assert "io exception" in failure.text


def test_parameters_of_the_url_are_session_options(jvm: Jvm, url: str) -> None:
    facts = jvm.run("Query", f"{url}&consistency=snapshot", "SELECT id FROM orders WHERE id IN (1, 2, 1000)")
    # Neither the deletion of 2 nor the insertion of 1000 is in the snapshot.
    assert sorted(facts["rows"]) == [[1], [2]]
    facts = jvm.run("Query", url, "SELECT id FROM orders WHERE id IN (1, 2, 1000)")
    assert sorted(facts["rows"]) == [[1], [1000]]


def test_a_dialect_is_chosen_in_the_url(jvm: Jvm, url: str) -> None:
    facts = jvm.run("Query", f"{url}&dialect=mysql", "SELECT `id` FROM `orders` WHERE `id` = 7")
    assert facts["rows"] == [[7]]


def test_the_schema_of_names_without_one_is_chosen_in_the_url(jvm: Jvm, url: str) -> None:
    facts = jvm.run(
        "Query", f"{url}&schema=system", "SELECT table_schema FROM tables WHERE table_name = 'orders'"
    )
    assert facts["rows"] == [["main"]]


def test_a_connection_that_only_reads_is_chosen_in_the_url(jvm: Jvm, url: str) -> None:
    reading = f"{url}&read_only=true"
    assert jvm.run("Query", reading, "SELECT id FROM orders WHERE id = 7")["rows"] == [[7]]
    failure = jvm.run("Query", reading, "DELETE FROM orders WHERE id = 7").failure("rows")
    assert "was not executed, since this session only reads" in failure.text


@pytest.mark.parametrize(
    ("parameter", "complaint"),
    [
        ("consistency=eventual", "consistency 'eventual' is unknown"),
        ("query_timeout_ms=soon", "'soon' is not a whole number"),
    ],
)
def test_a_wrong_option_in_the_url_fails_by_name(jvm: Jvm, url: str, parameter: str, complaint: str) -> None:
    failure = jvm.run("Query", f"{url}&{parameter}", "SELECT 1").failure("rows")
    assert complaint in failure.text


def test_the_catalog_of_the_url_opens_a_session(jvm: Jvm, url: str) -> None:
    facts = jvm.run("Query", f"{url}&catalog=lance", "SELECT 1")
    assert facts["rows"] == [[1]]
    # The driver closes the session twice, the second time after the channel.
    assert facts.failure("connect").text.startswith("Channel shutdown invoked")
    refused = jvm.run("Query", f"{url}&catalog=other", "SELECT 1").failure("connect")
    assert "Cannot set session option for catalog" in refused.text


def test_a_result_in_parts_is_whole(jvm: Jvm, url: str) -> None:
    facts = jvm.run("Query", f"{url}&endpoints=4", "SELECT id FROM orders")
    assert sorted(row[0] for row in facts["rows"]) == [number for number in range(1001) if number != 2]
