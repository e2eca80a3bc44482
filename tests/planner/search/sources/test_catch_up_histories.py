"""Random histories of merges, index builds and direct changes: every row stays in exactly one source."""

import random
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.search.sources.catch_up import CatchUpMode
from lance_gateway.planner.search.sources.index_coverage import IndexKind
from tests.planner.search.sources.divided import Divided, answering, rows_in
from tests.planner.search.sources.replayed import ReplayedTable, asking, axis
from tests.support.lake import merging
from tests.support.lake.tables import Row, unpartitioned
from tests.support.processes.writer_process import WriterProcess

KEYS = 60
ALWAYS = "catch_up => 'always'"
EVERYTHING = "nprobes => 100, ef => 1000, refine_factor => 100"


class History:
    """A table with two indexes, and what may happen to it."""

    def __init__(self, root: Path, writers: WriterProcess, seed: int, regions: int) -> None:
        self.random = random.Random(seed)
        base = [self._row(number) for number in range(0, KEYS, 2)]
        self.table = ReplayedTable(root, writers, base, layout=unpartitioned(("id",), regions))
        self.table.index_vectors()
        self.table.index_texts()
        self.divided = Divided(root, self.table.name)
        self.answered = 0

    @property
    def steps(self) -> dict[Callable[[], None], int]:
        """What may happen -> how often."""
        return {
            self.put: 5,
            self.delete: 1,
            self.table.flush: 3,
            self.merge: 4,
            self.build_one_index: 1,
            self.compact: 1,
            self.clean_up: 1,
            self.change_directly: 1,
            self.delete_directly: 1,
            self.append: 1,
        }

    def take_step(self) -> str:
        step = self.random.choices(list(self.steps), list(self.steps.values()))[0]
        step()
        return step.__name__

    def put(self) -> None:
        self.table.put(*(self._row(number) for number in self._some_keys(12)))

    def delete(self) -> None:
        self.table.delete(*({"id": number} for number in self._some_keys(3)))

    def merge(self) -> None:
        """All of it, or the first of the generations that wait, or those of one region."""
        self.table.flush()
        waiting = {
            region: numbers
            for region in self.table.table.regions.values()
            if (numbers := self.table._unmerged(region))
        }
        for region, numbers in waiting.items():
            if self.random.random() < 0.7:
                merging.merge_generations(self.table.table.path, region, self.random.choice(numbers))

    def build_one_index(self) -> None:
        name = self.random.choice(["vec_index", "txt_index"])
        self._dataset.optimize.optimize_indices(
            index_names=[name], num_indices_to_merge=self.random.choice([0, 1])
        )

    def compact(self) -> None:
        self._dataset.optimize.compact_files()

    def clean_up(self) -> None:
        region = self.random.choice(list(self.table.table.regions.values()) or [None])
        if region is not None:
            merging.clean_up_merged(self.table.table.path, region)

    def change_directly(self) -> None:
        """A table service updates rows of the base table, once nothing lies on top of them."""
        self._merge_everything()
        keys = [key for key in self._some_keys(5) if (key,) in self.table.rows]
        column, value, literal = self.random.choice(
            [("n", 77, "77"), ("txt", "other words", "'other words'")]
        )
        if keys:
            self._dataset.update({column: literal}, where=f"id IN ({', '.join(map(str, keys))})")
        for key in keys:
            self.table.rows[(key,)][column] = value

    def delete_directly(self) -> None:
        self._merge_everything()
        keys = self._some_keys(3)
        self._dataset.delete(f"id IN ({', '.join(map(str, keys))})")
        for key in keys:
            self.table.rows.pop((key,), None)

    def append(self) -> None:
        self._merge_everything()
        fresh = [self._row(key) for key in self._some_keys(5) if (key,) not in self.table.rows]
        rows = pa.Table.from_pylist(fresh, schema=self.table.schema)
        lance.write_dataset(rows, self.table.table.path, mode="append")
        self.table.rows |= {(one["id"],): one for one in fresh}

    def check(self, context: str) -> None:
        """Every row of the replay is in one source, as it is now, and nothing else is in any."""
        expected = sorted(self.table.rows.values(), key=lambda one: one["id"])
        for kind in IndexKind:
            sources = self.divided.sources(kind, CatchUpMode.ALWAYS)
            found = [one for source in sources for one in rows_in(source)]
            assert sorted(found, key=lambda one: one["id"]) == expected, (context, kind)
            self.answered += sum(answering(sources).values())

    def _merge_everything(self) -> None:
        self.table.flush()
        self.table.merge()

    def _some_keys(self, most: int) -> list[int]:
        return self.random.sample(range(KEYS), self.random.randint(1, most))

    def _row(self, number: int) -> Row:
        place = self.random.choice([1.0, 2.0, 3.0])
        words = self.random.choices(["apple", "banana", "cherry"], k=self.random.randint(1, 4))
        vector = None if self.random.random() < 0.1 else axis(number, place)
        text = None if self.random.random() < 0.1 else " ".join(words)
        return {"id": number, "vec": vector, "txt": text, "n": self.random.randint(0, 3)}

    @property
    def _dataset(self) -> lance.LanceDataset:
        return self.table.table.dataset()


@pytest.mark.parametrize(
    ("seed", "steps"),
    [
        (7, 9),
        *(
            pytest.param(seed, 100, marks=[pytest.mark.soak, pytest.mark.timeout(0)])
            for seed in range(10, 20)
        ),
    ],
)
def test_every_row_is_found_once_and_as_it_is(
    root: Path,
    writers: WriterProcess,
    open_engine: Callable[[Path], QueryEngine],
    seed: int,
    steps: int,
):
    history = History(root, writers, seed, regions=1 + seed % 3)
    ask = asking(open_engine(root))
    taken = []
    for _ in range(steps):
        taken.append(history.take_step())
        history.check(f"seed {seed} after {taken}")
        history.table.check_nearest(ask, axis(seed, 1.5), 15, options=f"{ALWAYS}, {EVERYTHING}")
        history.table.check_texts(ask, "apple cherry", KEYS, options=ALWAYS)
    assert history.answered > 0
    history.divided.close()
