"""Indexes whose files name rows that are elsewhere by now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.execnodes.text.query.query import MatchQuery
from lance_gateway.planner.engine import QueryEngine
from tests.planner.search.texts.text_history import assert_same_ranking, build_indexes, lance_ranking

Open = Callable[[Path], QueryEngine]
TEXTS = ["alpha beta", "alpha", "gamma", "alpha delta eps zeta", "beta", None, "alpha alpha", "beta beta eps"]


@pytest.fixture
def table(root: Path) -> Path:
    path = root / "docs.lance"
    dataset: Any = lance.write_dataset(
        pa.table({"id": range(len(TEXTS)), "body": TEXTS}), path, max_rows_per_file=2
    )
    build_indexes(dataset, ["body"], {})
    lance.dataset(path).delete("id = 1")
    return path


def check(path: Path, merged: Path, engine: QueryEngine) -> None:
    rows = lance.dataset(path).to_table()
    fresh: Any = lance.write_dataset(rows, merged, mode="overwrite")
    build_indexes(fresh, ["body"], {})
    for words in ("alpha", "beta eps", "gamma"):
        answer = engine.execute(f"SELECT id, _score FROM lance_fts('docs', 'body', '{words}')").read_all()
        found = [(row["id"], row["_score"]) for row in answer.to_pylist()]
        assert_same_ranking(found, lance_ranking(lance.dataset(merged), MatchQuery(words, "body")), 10)


@pytest.mark.parametrize("defer", [False, True])
def test_a_compaction_that_leaves_indexes_as_they_were(
    table: Path, tmp_path: Path, open_engine: Open, *, defer: bool
):
    lance.dataset(table).optimize.compact_files(defer_index_remap=defer)
    check(table, tmp_path / "merged", open_engine(table.parent))


@pytest.mark.slow
def test_rows_that_an_update_moved(table: Path, tmp_path: Path, open_engine: Open):
    changed = pa.table({"id": [0, 2], "body": ["new new", "alpha new"]})
    lance.dataset(table).merge_insert("id").when_matched_update_all().execute(changed)
    check(table, tmp_path / "merged", open_engine(table.parent))
    lance.dataset(table).optimize.optimize_indices(num_indices_to_merge=0)
    check(table, tmp_path / "merged", open_engine(table.parent))
