"""`system.jobs`: statements that take long tell how far they are, and everyone sees those of their tables."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.storage.jobs import Job, JobRecord, RunningJobs, Watch, ignore_ticks
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.rights import FULL_ACCESS, TableAccess
from lance_gateway.planner.engine import QueryEngine
from tests.support.judging.principals import create_principal
from tests.support.judging.results import rows_of


@dataclass
class Recorder(RunningJobs):
    """Remembers each state that a job had."""

    states: list[JobRecord] = field(default_factory=list)

    @contextmanager
    def run(
        self, kind: str, table: TableName, user: str | None = None, watch: Watch = ignore_ticks
    ) -> Iterator[Job]:
        states = self.states

        class Recorded(Job):
            def show(self, phase: str, done: int, total: int | None, unit: str) -> None:
                super().show(phase, done, total, unit)
                states.append(self.record)

            def advance(self, done: int) -> None:
                super().advance(done)
                states.append(self.record)

        yield Recorded(JobRecord("1", kind, table, "", 0, None, "", 0.0, user or "", "", 1), watch)


@pytest.fixture
def engine(root: Path, open_engine: Callable[[Path], QueryEngine]) -> QueryEngine:
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array([float(i % 7) for i in range(512 * 8)], pa.float32()), 8
    )
    for part in range(2):
        rows = pa.table({"id": range(part * 512, part * 512 + 512), "vector": vectors})
        lance.write_dataset(rows, root / "t.lance", mode="append" if part else "create")
    return open_engine(root)


def execute(engine: QueryEngine, sql: str) -> None:
    engine.prepare_statement(sql).execute()


def test_statements_tell_of_their_stages(engine: QueryEngine):
    recorder = engine.catalog.jobs = Recorder()
    execute(engine, "CREATE INDEX by_id ON t (id)")
    execute(engine, "CREATE INDEX by_vector ON t USING IVF_FLAT (vector) WITH (num_partitions = 2)")
    built = {(one.kind, one.table, one.phase.partition(":")[0]) for one in recorder.states}
    assert built == {("create index", "t", "by_id"), ("create index", "t", "by_vector")}
    assert any(one.total == 1024 and one.unit == "row" for one in recorder.states), recorder.states
    recorder.states.clear()
    execute(engine, "OPTIMIZE t")
    assert {one.kind for one in recorder.states} == {"optimize"}
    updated = [("bring indexes up to date", done, 2, "index") for done in range(3)]
    assert [(one.phase, one.done, one.total, one.unit) for one in recorder.states] == [
        *updated,
        ("compact files", 0, 2, "fragment"),
        ("compact files", 2, 2, "fragment"),
        *updated,
        ("build indexes of the key", 0, 0, "index"),
    ]


def test_tables_tell_of_their_first_rows(engine: QueryEngine):
    recorder = engine.catalog.jobs = Recorder()
    execute(engine, "CREATE TABLE made (PRIMARY KEY (id)) AS SELECT id FROM t")
    execute(engine, "CREATE TABLE twin CLONE made")
    shown = [(one.kind, one.table, one.phase, one.done, one.total) for one in recorder.states]
    for table in ("made", "twin"):
        found = [rest for kind, name, *rest in shown if (kind, name) == ("create table", table)]
        assert found[0] == ["write rows", 0, None]
        assert ["write rows", 1024, None] in found
        assert found[-1] == ["build indexes of the key", 1, 1]


def test_everyone_sees_the_jobs_of_their_tables(engine: QueryEngine):
    sql = "SELECT kind, table_schema, table_name, phase, done, total FROM system.jobs ORDER BY kind"
    jobs = engine.catalog.jobs
    with jobs.run("merge", TableName("t")) as merge, jobs.run("index", TableName("u", "sales")):
        merge.begin("merge t", 4, "generation")
        merge.advance(1)
        seen = {
            name: rows_of(engine.prepare(sql, access=access).execute().read_all())
            for name, access in {
                "admin": FULL_ACCESS,
                "reader": create_principal(t=TableAccess()),
                "restricted": create_principal(t=TableAccess(row_filter="id < 3")),
                "other": create_principal(),
            }.items()
        }
    assert seen == {
        "admin": [("index", "sales", "u", "", 0, None), ("merge", "main", "t", "merge t", 1, 4)],
        "reader": [("merge", "main", "t", "merge t", 1, 4)],
        "restricted": [("merge", "main", "t", "merge t", None, None)],
        "other": [],
    }
