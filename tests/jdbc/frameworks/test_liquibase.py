"""Liquibase 4.33, with the database in examples/liquibase: changes, history, tags, rollbacks and the lock."""

import re
import shutil
from pathlib import Path

import pytest

from tests.jdbc.jvm import Facts, Jvm
from tests.support.processes.servers import fetch, open_connection

FOLDER = Path(__file__).with_name("liquibase")
CHANGES = re.findall(r'<changeSet id="(\w+)"', (FOLDER / "changes.xml").read_text())


@pytest.fixture(scope="module")
def facts(frameworks_jvm: Jvm, frameworks_url: str) -> Facts:
    return frameworks_jvm.run("LiquibaseRuns", frameworks_url, str(FOLDER))


@pytest.mark.soak
def test_changes_are_made_once(facts: Facts) -> None:
    count = str(len(CHANGES))
    assert facts["update"].split()[2:6] == ["Run:", count, "Previously", "run:"]
    assert facts["again"].split()[2:7] == ["Run:", "0", "Previously", "run:", count]
    assert facts["rows"] == [
        [1, "/it's", 7, False, "1.25", "2026-02-28", "2026-02-28 10:11:12.0", "none"],
        [2, "/two", 7, None, None, "2026-01-01", None, "x"],
        [3, "/three", 7, None, None, None, None, "none"],
    ]
    assert facts["history"] == [[name, "MARK_RAN" if name == "never" else "EXECUTED"] for name in CHANGES]
    assert facts["columns"][:3] == [["id", "bigint"], ["page", "character varying"], ["i", "integer"]]


@pytest.mark.soak
def test_a_rollback_goes_back_to_a_tag(facts: Facts) -> None:
    assert facts["tag"] == ""
    assert facts["rollback"] == ""
    before = CHANGES[: CHANGES.index("tagged")]
    assert facts["left"] == [[name] for name in before]
    assert facts["tables"] == [["liquid_pages"]]


@pytest.mark.soak
def test_the_database_is_told(facts: Facts) -> None:
    assert facts["snapshot"] is True


@pytest.mark.soak
def test_one_that_fails_leaves_no_lock(facts: Facts) -> None:
    assert "'id'" in facts.failure("one that fails").text
    assert facts["locks"] == [[False]]


@pytest.mark.soak
def test_a_lock_is_waited_for_and_released(facts: Facts) -> None:
    assert "Currently locked by ada" in facts.failure("while another one has the lock").text
    assert facts["release"] == ""
    assert facts["released"] == [[False, None]]


@pytest.mark.slow
@pytest.mark.soak
def test_the_documentation_runs_as_it_stands(
    frameworks_jvm: Jvm, frameworks_url: str, frameworks_folder: Path
) -> None:
    shutil.copy(FOLDER / "documented.xml", frameworks_folder / "changelog.xml")
    frameworks_jvm.run("Documented", "DocumentedLiquibase", frameworks_url)
    uri = f"grpc://{frameworks_url.partition('://')[2].partition('/')[0]}"
    with open_connection(uri) as connection:
        assert fetch(connection, "SELECT * FROM documented").to_pylist() == [{"id": 7}]
