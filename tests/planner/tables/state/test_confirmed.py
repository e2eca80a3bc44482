"""All that a statement must know of a table is asked at once, whatever others do between two answers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lance_gateway.pipeline.cleaning import CleanPolicy, clean
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging import merge
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.newest_base import NewestBase
from tests.support.processes.gateways import EngineGateway
from tests.support.sampling import sample
from tests.support.stores.distant import DistantBackend, Order

QUERY = "SELECT id, n FROM t"
START = {1: 1, 2: 2, 3: 3}


class Pair:
    """A gateway that writes a table, and an engine that reads it from afar."""

    def __init__(self, root: Path, arrange: Order = list) -> None:
        self.root = root
        self.writer = EngineGateway(root)
        self.writer.write(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT) WITH (region_by = 'bucket(id, 2)')"
        )
        self.writer.write(f"INSERT INTO t VALUES {', '.join(map(str, START.items()))}")
        self.backend = DistantBackend(arrange)
        self.reader = QueryEngine(self.backend.open(root))

    def read(self) -> dict[int, int]:
        rows = self.reader.execute(QUERY).read_all().to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["n"] for row in rows}

    def read_with(self, change: Callable[["Pair"], None], at: int) -> tuple[dict[int, int], bool]:
        """Read while something changes before a request; return the rows, and whether it was sent."""
        left = at

        def between() -> None:
            nonlocal left
            left -= 1
            if left == -1:
                change(self)

        self.backend.between = between
        try:
            return self.read(), left < 0
        finally:
            self.backend.between = lambda: None


def write(pair: Pair) -> None:
    pair.writer.write("INSERT INTO t VALUES (1, 10), (2, 20), (7, 70)")


def delete(pair: Pair) -> None:
    pair.writer.write("DELETE FROM t WHERE id < 3")


def flush(pair: Pair) -> None:
    pair.writer.write("FLUSH TABLE t")


def move_to_base(pair: Pair) -> None:
    pair.writer.write("FLUSH TABLE t")
    table = LakeTable.at(str(pair.root / "t.lance"))
    merge(table)
    clean(table, CleanPolicy(grace_seconds=0), delete=True)


def make_anew(pair: Pair) -> None:
    pair.writer.write("DROP TABLE t")
    pair.writer.write("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT) WITH (region_by = 'bucket(id, 2)')")
    pair.writer.write("INSERT INTO t VALUES (1, -1), (2, -2), (3, -3)")


CHANGES: dict[Callable[[Pair], None], dict[int, int]] = {
    write: {1: 10, 2: 20, 3: 3, 7: 70},
    delete: {3: 3},
    flush: START,
    move_to_base: START,
    make_anew: {1: -1, 2: -2, 3: -3},
}


@pytest.mark.slow
@pytest.mark.parametrize("arrange", [list, lambda one: list(reversed(one))], ids=["in order", "backwards"])
@pytest.mark.parametrize("at", sample(range(20), 6))
@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.__name__)
def test_a_change_between_two_answers_is_seen_whole_or_not_at_all(
    tmp_path: Path, change: Callable[[Pair], None], at: int, arrange: Order
) -> None:
    pair = Pair(tmp_path, arrange)
    assert pair.read() == pair.read() == START
    (found, has_changed), after = pair.read_with(change, at), CHANGES[change]
    if change in {write, delete}:  # Two regions have no common instant.
        assert all(found.get(key) in {START.get(key), after.get(key)} for key in {*START, *after, *found})
    else:
        assert found in (START, after)
    assert pair.read() == (after if has_changed else START)


@pytest.mark.parametrize("count", [1, 3])
def test_what_has_not_changed_is_asked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    pair = Pair(tmp_path)
    sql = " UNION ALL ".join([QUERY] * count)
    for _ in range(2):
        prepared = pair.reader.prepare(sql)
        pair.backend.steps = 0
        assert prepared.execute().read_all().num_rows == count * len(START)
    assert pair.backend.steps == 1
    # Nor is Lance asked for the newest version apart from the others.
    prepared = pair.reader.prepare(sql)
    monkeypatch.setattr(NewestBase, "find", None)
    assert prepared.execute().read_all().num_rows == count * len(START)


def test_rows_that_others_wrote_come_with_the_answers(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    assert pair.read() == pair.read() == START
    write(pair)
    prepared = pair.reader.prepare(QUERY)
    pair.backend.steps = 0
    assert prepared.execute().read_all().num_rows == 4
    assert pair.backend.steps == 1
    for _ in range(3):
        write(pair)
    assert pair.read() == CHANGES[write]
