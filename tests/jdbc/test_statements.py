"""Statements and prepared statements over JDBC."""

import pytest

from tests.jdbc.jvm import Facts, Jvm

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def facts(jvm: Jvm, url: str) -> Facts:
    return jvm.run("Statements", url)


def test_rows_are_the_newest(facts: Facts) -> None:
    assert facts["rows"] == [[0, "customer 0", 0.0], [1, "customer 1", 100.5], [3, "customer 3", 1.5]]
