"""A stream runs while its table is queried, merged and kept in order: the end is the source."""

import itertools
import json
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lance_gateway.pipeline.cleaning import CleanPolicy
from lance_gateway.pipeline.indexing import IndexPolicy
from lance_gateway.pipeline.ingesting import IngestOptions, stream
from lance_gateway.pipeline.jobs.lake import Lake
from lance_gateway.pipeline.keeping import Keeper, Policies, RunPolicy
from lance_gateway.pipeline.merging import MergePolicy, merge
from lance_gateway.pipeline.snapshotting import SnapshotPolicy
from tests.fights.registers import meanwhile
from tests.pipeline.racer import GRACE_SECONDS
from tests.support.lake.written import make_notes
from tests.support.processes.gateways import EngineGateway, Gateway, start_served_gateway

IDS = 40
ROWS = 15


def _write_sources(folder: Path, count: int) -> dict[int, int]:
    """So many files, of which each changes some ids; what the last of them say."""
    folder.mkdir()
    held: dict[int, int] = {}
    for number in range(count):
        changed = {(number * 7 + step * 3) % IDS: number for step in range(ROWS)}
        rows = (json.dumps({"id": one, "text": str(number)}) for one in changed)
        path = folder / f"{number:05}.json"
        path.write_text("\n".join(rows))
        os.utime(path, (number + 1, number + 1))  # Spark takes the oldest file first.
        held |= changed
    return held


class Watcher:
    """Reads a table again and again; what it was told of an id never goes back."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.seen: dict[int, int] = {}
        self._queries = itertools.cycle(
            (
                "SELECT id, text FROM notes",
                "SELECT id, text FROM notes WHERE id IN (3, 7, 21)",
                "SELECT id, max(text) AS text FROM notes WHERE id % 2 = 0 GROUP BY id",
            )
        )

    def step(self) -> None:
        sql = next(self._queries)
        rows = self.gateway.read(sql).to_pylist()
        found = {row["id"]: int(row["text"]) for row in rows}
        assert len(found) == len(rows), f"{sql} finds an id twice"
        back = {
            one: (self.seen.get(one), number)
            for one, number in found.items()
            if number < self.seen.get(one, 0)
        }
        assert not back, f"{sql} goes back to {back} from {self.seen}"
        self.seen |= found


def _keeper(root: Path) -> Keeper:
    policies = Policies(
        merge=MergePolicy(min_generations=2),
        index=IndexPolicy(max_spare_fragments=4),
        snapshot=SnapshotPolicy(1),
        clean=CleanPolicy(grace_seconds=GRACE_SECONDS, retain_versions=1),
        run=RunPolicy(delete=True, clean_interval_seconds=1),
    )
    return Keeper(Lake.open(str(root)), policies)


def _stream_all(spark: SparkSession, root: Path, folder: Path, gateway: Gateway, files: int) -> None:
    make_notes(root, "notes", 2)
    expected = _write_sources(folder / "in", files)
    table = Lake.open(str(root)).table("notes")
    watcher, keeper = Watcher(gateway), _keeper(root)

    def watch_and_keep() -> None:
        for _ in range(3):
            watcher.step()
        failed = keeper.round(patient=False).failed
        assert not failed, failed

    rows = spark.readStream.schema("id BIGINT, text STRING").option("maxFilesPerTrigger", 1)
    with meanwhile(watch_and_keep):
        query = stream(
            rows.json(str(folder / "in")),
            table,
            checkpoint=str(folder / "checkpoint"),
            trigger={"availableNow": True},
            options=IngestOptions(hold_ms=0),
        )
        query.await_end()
    watcher.step()
    merge(table)
    base = {row["id"]: int(row["text"]) for row in table.dataset().to_table().to_pylist()}
    shown = {row["id"]: int(row["text"]) for row in gateway.read("SELECT id, text FROM notes").to_pylist()}
    assert base == shown == expected


@pytest.mark.slow
@pytest.mark.soak
def test_a_stream_under_queries_and_upkeep_ends_as_its_source(
    spark: SparkSession, root: Path, tmp_path: Path
):
    gateway = EngineGateway(root)
    try:
        _stream_all(spark, root, tmp_path, gateway, files=4)
    finally:
        gateway.close()


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_long_stream_under_queries_and_upkeep_ends_as_its_source(
    spark: SparkSession, root: Path, tmp_path: Path
):
    gateway = start_served_gateway(root)
    try:
        _stream_all(spark, root, tmp_path, gateway, files=200)
    finally:
        gateway.close()
