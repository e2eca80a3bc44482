"""Flyway 13, with the database type in examples/flyway: migrations, their history, repairs and the lock."""

from pathlib import Path

import pytest

from tests.jdbc.jvm import Facts, Jvm

pytestmark = [pytest.mark.slow, pytest.mark.soak]

MIGRATIONS = {
    "V1__pages.sql": "-- Its text has a semicolon.\n"
    "CREATE TABLE run_pages (id BIGINT PRIMARY KEY, page VARCHAR(20) NOT NULL);\n"
    "INSERT INTO run_pages VALUES (1, '/;a');\n",
    "V2__notes.sql": "ALTER TABLE run_pages ADD COLUMN note VARCHAR(20); UPDATE run_pages SET note = 'x';",
    "R__view.sql": "CREATE OR REPLACE VIEW run_notes AS SELECT id, note FROM run_pages;",
}


@pytest.fixture(scope="module")
def facts(frameworks_jvm: Jvm, frameworks_url: str, tmp_path_factory: pytest.TempPathFactory) -> Facts:
    good: Path = tmp_path_factory.mktemp("good")
    every: Path = tmp_path_factory.mktemp("every")
    for folder in (good, every):
        for name, sql in MIGRATIONS.items():
            (folder / name).write_text(sql)
    (every / "V3__fails.sql").write_text("INSERT INTO run_pages (id) VALUES (9);")
    return frameworks_jvm.run("FlywayRuns", frameworks_url, str(good), str(every))


def test_migrations_run_once_though_two_processes_start_them(facts: Facts) -> None:
    assert sum(facts["two at once"]) == len(MIGRATIONS)
    assert facts["again"] == 0
    assert facts["rows"] == [[1, "/;a", "x"]]


def test_the_history_tells_and_validates_them(facts: Facts) -> None:
    assert facts["states"] == [
        "<< Flyway Baseline >> BASELINE",
        "pages SUCCESS",
        "notes SUCCESS",
        "view SUCCESS",
    ]
    assert facts["validate"] == "done"
    assert facts["history"] == [[1, "0", True], [2, "1", True], [3, "2", True], [4, None, True]]


def test_one_that_fails_is_repeated_after_a_repair(facts: Facts) -> None:
    assert "column 'page' of table 'run_pages' must not be NULL" in facts.failure("one that fails").text
    assert "failed migration to version 3" in facts.failure("before repair").text
    assert facts["repair"] == ["Removed failed migrations"]


def test_a_lock_that_is_left_says_how_it_is_removed(facts: Facts) -> None:
    told = facts.failure("while another one has the lock").text
    assert 'DELETE FROM "main"."runs_history" WHERE installed_rank = -100' in told


def test_the_documentation_runs_as_it_stands(frameworks_jvm: Jvm, frameworks_url: str) -> None:
    printed = frameworks_jvm.run("Documented", "DocumentedFlyway", frameworks_url)["printed"]
    assert printed == "0\n"
