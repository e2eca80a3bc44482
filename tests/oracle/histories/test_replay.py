"""The oracle itself: once everything is merged with Lance's merge_insert, the base table is the replay."""

import random
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from tests.oracle.replay.model import Column, TableModel
from tests.support.judging.results import assert_same_rows
from tests.support.lake import manifests
from tests.support.lake.merging import clean_up_merged, merge_generations
from tests.support.lake.tables import Layout, LsmTable, bucketed, by_identity, key_field, unpartitioned
from tests.support.processes.writer_process import FencedError, WriterProcess

SINGLE = pa.schema([key_field("id", pa.int64()), pa.field("n", pa.int32()), pa.field("s", pa.string())])
COMPOSITE = pa.schema(
    [
        key_field("id", pa.int64(), position=2),
        pa.field("n", pa.int32()),
        key_field("tenant", pa.string(), position=1),
    ]
)


def columns_of(table: LsmTable) -> tuple[Column, ...]:
    dataset = table.dataset()
    ids = {column.name(): column.id() for column in dataset.lance_schema.fields()}
    return tuple(Column(item.name, ids[item.name], item.type, item.nullable) for item in dataset.schema)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "layout"),
    [
        (SINGLE, unpartitioned(("id",), 2)),
        (SINGLE, bucketed("id", 3, recorded=True)),
        (COMPOSITE, by_identity("tenant", recorded=True)),
        (COMPOSITE, bucketed("tenant", 2, recorded=False)),
    ],
    ids=lambda value: value.name if isinstance(value, Layout) else None,
)
def test_a_fully_merged_table_equals_the_replay(
    root: Path, writers: WriterProcess, schema: pa.Schema, layout: Layout
):
    random_source = random.Random(7)
    keys = [
        {"id": number, "tenant": tenant} if "tenant" in schema.names else {"id": number}
        for number in range(8)
        for tenant in ("north", "south")
    ]

    def row() -> dict[str, object]:
        values = {"n": random_source.choice([None, 1, 2]), "s": random_source.choice([None, "a", "b"])}
        drawn = {**values, **random_source.choice(keys)}
        return {name: drawn[name] for name in schema.names}

    first = {tuple(row_[name] for name in ("id",)): row_ for row_ in (row() for _ in range(6))}
    base = pa.Table.from_pylist(list(first.values()), schema=schema)
    table = LsmTable.create(root, "t", base, layout, writers, max_memtable_rows=5)
    model = TableModel(columns_of(table), table.key)
    model.load(base.to_pylist())

    for _ in range(40):
        deletes = random_source.random() < 0.3
        acknowledged = table.delete([row()]) if deletes else table.put([row(), row(), row()])
        for region, rows, answer in acknowledged:
            ids = None if deletes else table.writer(region).field_ids
            model.write(region, rows, ids, answer.generation, answer.current_generation)

    table.close_writers()
    for region in table.regions.values():
        merge_generations(table.path, region, up_to=model.region(region).writes[-1].generation)
        clean_up_merged(table.path, region)
    assert_same_rows(table.dataset().to_table(), model.table())


def test_a_key_column_order_is_its_position(root: Path, writers: WriterProcess):
    table = LsmTable.create(root, "t", COMPOSITE.empty_table(), unpartitioned(("tenant", "id"), 1), writers)
    assert table.key == ("tenant", "id")


def test_recorded_region_values_survive_lances_writer(root: Path, writers: WriterProcess):
    table = LsmTable.create(root, "t", SINGLE.empty_table(), bucketed("id", 2, recorded=True), writers)
    table.put([{"id": 1, "n": 1, "s": None}])
    table.close_writers()
    (region,) = table.regions.values()
    manifest = manifests.read_manifest(table.path, region)
    assert manifest.version > 2
    assert [(entry.field_id, len(entry.value)) for entry in manifest.region_field_entries] == [("bucket", 4)]


def test_a_second_writer_fences_the_first_and_replays_what_it_acknowledged(
    root: Path, writers: WriterProcess
):
    table = LsmTable.create(root, "t", SINGLE.empty_table(), unpartitioned(("id",), 1), writers)
    table.put([{"id": 1, "n": 1, "s": "first"}])
    (fenced,) = table.writers.values()
    with_the_region = writers.open(table.path, fenced.region)
    with pytest.raises(FencedError):
        fenced.put([{"id": 2, "n": 2, "s": "refused"}])
    with_the_region.close()
    generation = lance.dataset(table.generation_directory(fenced.region, 1))
    assert generation.to_table(columns=["id"]).to_pydict() == {"id": [1]}
