"""When a table is merged, and what shares a commit."""

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.pipeline.jobs.lake import TableState
from lance_gateway.pipeline.merging import MergePolicy, merge
from lance_gateway.pipeline.merging.batches import Batch, Weight, batches, weigh
from tests.support.lake.merged import MergedTable
from tests.support.lake.tables import key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> MergedTable:
    """Two regions of two generations with 4 and 6 rows each."""
    root = tmp_path_factory.mktemp("root")
    kept = MergedTable.create(root, shared_writers, unpartitioned(("id",), 2), SCHEMA)
    by_region: dict[str, list[int]] = {}
    for key in range(100):
        by_region.setdefault(kept.table.region_of({"id": key}), []).append(key)
    assert len(by_region) == 2
    for count in (4, 6):
        kept.put(*({"id": key, "v": "x"} for keys in by_region.values() for key in keys[:count]))
        kept.flush()
    return kept


@pytest.mark.parametrize(
    ("policy", "merges"),
    [
        (MergePolicy(min_generations=4, batch_rows=1), True),
        (MergePolicy(min_generations=5), False),
        (MergePolicy(min_rows=20, batch_rows=1), True),
        (MergePolicy(min_rows=21), False),
        (MergePolicy(min_bytes=1_000, batch_rows=1), True),
        (MergePolicy(min_bytes=1_000_000), False),
        (MergePolicy(max_lag_seconds=0, batch_rows=1), True),
        (MergePolicy(max_lag_seconds=86_400), False),
        (MergePolicy(min_generations=5, max_lag_seconds=0), True),
        (MergePolicy(min_generations=5, min_rows=21, min_bytes=1_000_000, max_lag_seconds=86_400), False),
    ],
)
def test_any_trigger_that_is_set_may_decide(
    kept: MergedTable, policy: MergePolicy, merges: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("lance_gateway.pipeline.merging.job._rounds", lambda *_: iter(()))
    version = kept.base().version
    assert merge(kept.lake_table, policy).left == (0 if merges else 4)
    assert kept.base().version == version


@pytest.mark.parametrize(
    ("rows", "numbers"),
    [
        (20, [[(1, 2), (1, 2)]]),
        (19, [[(1, 2)], [(1, 2)]]),
        (10, [[(1, 2)], [(1, 2)]]),
        (9, [[(1,), (1,)], [(2,)], [(2,)]]),
        (7, [[(1,)], [(1,)], [(2,)], [(2,)]]),
        (1, [[(1,)], [(1,)], [(2,)], [(2,)]]),
    ],
)
def test_batches_are_as_large_as_they_may_be(
    kept: MergedTable, rows: int, numbers: list[list[tuple[int, ...]]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        "lance_gateway.pipeline.merging.batches.agree", lambda _storage, _region, _first, through: through
    )
    table = kept.lake_table
    pending = {one: region.pending for one, region in TableState.read(table).regions.items()}
    found = batches(table, pending, {}, weigh(table, pending), MergePolicy(batch_rows=rows))
    assert [
        [tuple(one.generation for one in prefix.generations) for prefix in batch.prefixes] for batch in found
    ] == numbers


@pytest.mark.parametrize(
    ("name", "value"),
    [("min_generations", 0), ("min_rows", 0), ("min_bytes", -1), ("batch_rows", 0), ("batch_bytes", 0)],
)
def test_a_policy_that_means_nothing_is_refused(name: str, value: int):
    with pytest.raises(InvalidInputError, match=f"{name} is {value}, but must be 1 or more"):
        MergePolicy(**{name: value})


def test_time_does_not_run_backwards():
    with pytest.raises(InvalidInputError, match="max_lag_seconds is -1"):
        MergePolicy(max_lag_seconds=-1)


def test_a_batch_has_something():
    with pytest.raises(InvalidInputError, match="one prefix of each of its regions"):
        Batch((), Weight(0, 0))
