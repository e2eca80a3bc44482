"""A table with a recorded history, for tests of cleaning."""

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from lance_gateway.pipeline.cleaning import CleanPolicy, CleanReport, Garbage, Kind, clean
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from tests.support.lake import manifests
from tests.support.lake.merging import merge_generations
from tests.support.lake.tables import LsmTable, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

Open = Callable[[Path], QueryEngine]
SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])
NEWEST_ONLY = CleanPolicy(retain_versions=1)
"""Gives up all of the past that is not tagged."""
HOUR = 3600.0


def create_late_clock(hours: float = 1.0) -> Callable[[], float]:
    """Return a clock that is so many hours ahead."""
    return lambda: time.time() + hours * HOUR


def filter_kind(report: CleanReport, kind: Kind) -> list[Garbage]:
    return [one for one in report.garbage if one.kind is kind]


@dataclass
class CleanedTable:
    """A table of one region, and its expected rows."""

    table: LsmTable
    rows: dict[int, str]
    flushed: dict[int, str] = field(default_factory=dict)
    versions: dict[int, dict[int, str]] = field(default_factory=dict)

    @staticmethod
    def create(root: Path, writers: WriterProcess, **config: int) -> "CleanedTable":
        rows = dict.fromkeys(range(6), "base")
        base = pa.table([list(rows), list(rows.values())], schema=SCHEMA)
        table = LsmTable.create(root, "t", base, unpartitioned(("id",), 1), writers, **config)
        made = CleanedTable(table, rows, dict(rows))
        made._record_state()
        return made

    @property
    def path(self) -> Path:
        return self.table.path

    @property
    def region(self) -> str:
        return self.table.region_of({"id": 0})

    @property
    def lake(self) -> LakeTable:
        return LakeTable.at(str(self.path))

    def put(self, values: Mapping[int, str]) -> None:
        """One entry of the log for each."""
        for key, value in values.items():
            self.table.put([{"id": key, "v": value}])
            self.rows[key] = value

    def delete(self, key: int) -> None:
        self.table.delete([{"id": key}])
        del self.rows[key]

    def flush(self) -> None:
        self.table.close_writers()
        self.flushed = dict(self.rows)

    def merge(self, up_to: int, region: str | None = None) -> None:
        merge_generations(self.path, region or self.region, up_to)
        self._record_state()

    def write_generation(self, value: str) -> None:
        """A generation of four entries."""
        self.put(dict.fromkeys(range(1, 5), value))
        self.flush()

    def clean(self, policy: CleanPolicy = NEWEST_ONLY, *, hours: float = 1.0) -> CleanReport:
        return clean(self.lake, policy, delete=True, clock=create_late_clock(hours))

    def find(self, policy: CleanPolicy = NEWEST_ONLY, *, hours: float = 1.0) -> CleanReport:
        return clean(self.lake, policy, clock=create_late_clock(hours))

    def list_generation_names(self) -> set[str]:
        """Of the directories of generations."""
        return {one.name for one in (self.path / "_mem_wal" / self.region).iterdir() if "_gen_" in one.name}

    def list_positions(self) -> list[int]:
        """Of the entries that the log has."""
        files = (self.path / "_mem_wal" / self.region / "wal").glob("*.arrow")
        return sorted(int(one.stem[::-1], 2) for one in files)

    def list_generations(self) -> list[int]:
        found = manifests.read_manifest(self.path, self.region).flushed_generations
        return [one.generation for one in found]

    def copy_to(self, to: Path) -> "CleanedTable":
        """Copy the files, with their times, to another directory; the copy's writers are closed."""
        assert not self.table.writers
        shutil.copytree(self.path, to / self.path.name)
        table = LsmTable(
            to / self.path.name,
            self.table.key,
            self.table.layout,
            self.table.process,
            regions=dict(self.table.regions),
        )
        return CleanedTable(table, dict(self.rows), dict(self.flushed), dict(self.versions))

    def check(self, engine: QueryEngine) -> None:
        """Check the newest state at each level of consistency."""
        for consistency, expected in (("strong", self.rows), ("flushed", self.flushed)):
            settings = SessionSettings(consistency=consistency)  # type: ignore[arg-type]
            assert read_rows(engine, "t", settings) == expected, consistency

    def _record_state(self) -> None:
        for version in range(max(self.versions, default=0) + 1, self.table.dataset().version + 1):
            self.versions[version] = dict(self.flushed)


def read_rows(engine: QueryEngine, what: str, settings: SessionSettings | None = None) -> dict[int, str]:
    """Return the rows of a table, or of a version of it."""
    query = f"SELECT id, v FROM {what}"
    found = engine.prepare(query, settings or SessionSettings()).execute().read_all()
    return dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))
