"""A table with indexes of three kinds, whose answers through the gateway's engine are checked by a replay."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lance

from lance_gateway.memwal.creating.key_index import encode_key_index
from lance_gateway.pipeline.indexing.indexes import IndexState, TableIndexes
from lance_gateway.pipeline.jobs.lake import LakeTable
from tests.planner.search.sources.replayed import Ask, ReplayedTable, axis
from tests.support.lake.tables import Row, bucketed
from tests.support.processes.writer_process import WriterProcess


def row(number: int, turn: int = 0) -> Row:
    """A row whose text, vector and number are others in every turn."""
    # Lengths differ between rows: equal distances and scores could come in any order.
    place = 1.0 + number / 1000 + turn / 100
    text = " ".join(["lake", f"turn{turn}", *["word"] * (1 + number % 17)])
    return {"id": number, "vec": axis(number + turn, place), "txt": text, "n": (number + 7 * turn) % 20}


def rows(numbers: Iterable[int], turn: int = 0) -> list[Row]:
    return [row(one, turn) for one in numbers]


class IndexedTable(ReplayedTable):
    """Two regions; indexes `vec_index`, `txt_index` and `n_index`, and on the key only if it is wanted."""

    def __init__(
        self,
        root: Path,
        writers: WriterProcess,
        first: Iterable[Row] | None = None,
        *,
        indexes: bool = True,
        key_index: bool = False,
        **config: Any,
    ) -> None:
        first = rows(range(200)) if first is None else first
        super().__init__(root, writers, first, layout=bucketed("id", 2, recorded=True), **config)
        self.lake_table = LakeTable.at(str(self.table.path))
        if not key_index:
            self.table.dataset().update_config(encode_key_index(()))
        if indexes:
            self.index_vectors()
            self.index_texts()
            self.table.dataset().create_scalar_index("n", "BTREE", name="n_index")

    def turn(self, numbers: range, turn: int, *, deleted: range = range(0)) -> None:
        """Rows and deletions become a generation in each region, and are merged."""
        self.put(*rows(numbers, turn))
        self.delete(*({"id": number} for number in deleted))
        self.flush()
        self.merge()

    def state(self) -> TableIndexes:
        return TableIndexes.read(self.lake_table)

    def index(self, name: str) -> IndexState:
        found = self.state().index(name)
        assert found is not None
        return found

    def segments(self, name: str) -> list[int]:
        """Rows of each segment, the oldest first."""
        return [one.rows for one in self.index(name).segments]

    def check(self, ask: Ask) -> None:
        """Every kind of question has the answer that the replay has."""
        found = ask("SELECT id, n, txt FROM docs ORDER BY id").to_pylist()
        expected = sorted(self.rows.values(), key=lambda one: one["id"])
        assert found == [{name: one[name] for name in ("id", "n", "txt")} for one in expected]
        for number in (0, 7, 13):
            ids = ask(f"SELECT id FROM docs WHERE n = {number} ORDER BY id")["id"].to_pylist()
            assert ids == [one["id"] for one in expected if one["n"] == number], number
        for number in (3, 150, 5000):
            ids = ask(f"SELECT n FROM docs WHERE id = {number}")["n"].to_pylist()
            assert ids == [one["n"] for one in expected if one["id"] == number], number
        self.check_nearest(ask, axis(3, 1.05), 5, options="nprobes => 10")
        self.check_texts(ask, "turn1 turn2", 8)
        self.check_texts(ask, "turn0", 8)


def check_lance(path: Path) -> None:
    """The indexes of the newest base version answer, in Lance's own scanner, what a scan of it does."""
    dataset = lance.dataset(path)
    everything = dataset.to_table().to_pylist()
    for number in (0, 7, 13):
        found = sorted(dataset.to_table(filter=f"n = {number}")["id"].to_pylist())
        assert found == sorted(one["id"] for one in everything if one["n"] == number), number
    for word in ("turn0", "turn1", "turn2"):
        hits = dataset.scanner(full_text_query=word, columns=["id", "_score"]).to_table()["id"].to_pylist()
        assert sorted(hits) == sorted(one["id"] for one in everything if word in one["txt"]), word
