"""Indexes of tables with stable row ids find what those of other tables find, however rows were changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine

ROWS = 3000
VECTORS = 8
TABLES = {"stable": True, "plain": False}
SEARCHES = {
    "vectors": "SELECT id, _distance FROM lance_vector_search('{}', 'vec', [0.3, -0.2, 0, 0, 1, 0, 0, 1], "
    "k => 30, "
    "nprobes => 4)",
    "conditions": "SELECT id, _distance FROM lance_vector_search('{}', 'vec', [0, 1, 0, 0, 0, 0, 0, 0], "
    "k => 9, "
    "nprobes => 4) WHERE id % 3 = 0 AND n < 2000",
    "texts": "SELECT id, _score FROM lance_fts('{}', 'txt', 'w3 w5 fresh', k => 4000)",
    "phrases": "SELECT id, _score FROM lance_fts('{}', 'txt', '\"fresh w3\"', k => 4000)",
    "near words": "SELECT id, _score FROM lance_fts('{}', 'txt', 'fresj', fuzziness => 1, k => 4000)",
    "both": "SELECT id, _hybrid_score FROM lance_hybrid_search('{}', 'vec', [1, 0, 0, 0, 0, 0, 0, 0], "
    "'txt', 'w7', k => 20, "
    "nprobes => 4)",
}


def rows_of(keys: list[int], seed: int, word: str) -> pa.Table:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(len(keys), VECTORS)).astype(np.float32)
    texts = [" ".join([word, f"w{key % 11}", *["more"] * (key % 5)]) for key in keys]
    return pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "n": pa.array(keys, pa.int32()),
            "vec": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), VECTORS),
            "txt": pa.array(texts),
            "word": pa.array([word] * len(keys)),
            "words": pa.array([[word]] * len(keys)),
        }
    )


class Twins:
    """Two tables with the same rows, one of them with stable row ids."""

    def __init__(self, root: Path) -> None:
        self.uris = [str(root / f"{name}.lance") for name in TABLES]
        for uri, stable in zip(self.uris, TABLES.values(), strict=True):
            written = lance.write_dataset(
                rows_of(list(range(ROWS)), 0, "old"),
                uri,
                max_rows_per_file=1000,
                enable_stable_row_ids=stable,
            )
            written.create_index("vec", "IVF_FLAT", num_partitions=4, metric="l2")
            written.create_scalar_index("txt", "INVERTED", with_position=True)
            written.create_scalar_index("n", "BTREE")

    def change(self, seed: int) -> None:
        """Change some rows, and delete others."""
        random = np.random.default_rng(seed)
        keys = sorted(random.choice(ROWS, 200, replace=False).tolist())
        gone = ", ".join(map(str, random.choice(ROWS, 40).tolist()))
        for uri in self.uris:
            upsert = lance.dataset(uri).merge_insert("id").when_matched_update_all()
            upsert.when_not_matched_insert_all().execute(rows_of(keys, seed, "fresh"))
            lance.dataset(uri).delete(f"id IN ({gone})")

    def maintain(self, action: Callable[[Any], object]) -> None:
        for uri in self.uris:
            action(lance.dataset(uri))


def check(engine: QueryEngine) -> None:
    for title, sql in SEARCHES.items():
        stable, plain = (
            sorted(engine.execute(sql.format(name)).read_all().to_pylist(), key=lambda row: row["id"])
            for name in TABLES
        )
        assert [row["id"] for row in stable] == [row["id"] for row in plain], title
        (score,) = {*stable[0]} - {"id"}
        assert [row[score] for row in stable] == pytest.approx([row[score] for row in plain], rel=1e-5), title


def explain(engine: QueryEngine, title: str) -> str:
    return str(
        engine.execute(f"EXPLAIN {SEARCHES[title].format('stable')}").read_all().column("plan").to_pylist()
    )


MAINTENANCE: dict[str, Callable[[Any], object]] = {
    "nothing": lambda _: None,
    "folded": lambda dataset: dataset.optimize.optimize_indices(),
    "compacted": lambda dataset: dataset.optimize.compact_files(),
    "one more segment": lambda dataset: dataset.optimize.optimize_indices(num_indices_to_merge=0),
    "folded too late": lambda dataset: dataset.optimize.optimize_indices(num_indices_to_merge=9),
}


def test_searches_find_the_same_rows_with_and_without(
    tmp_path: Path, open_engine: Callable[[Path], QueryEngine]
):
    twins, engine = Twins(tmp_path), open_engine(tmp_path)
    for seed, (title, action) in enumerate(list(MAINTENANCE.items())[:-1], start=1):
        twins.change(seed)
        twins.maintain(action)
        check(engine)
        assert "index=vec_idx (IVF_FLAT l2)" in explain(engine, "vectors")
        # A second segment of a text index finds the texts that rows had before.
        assert ("index=txt_idx" in explain(engine, "texts")) == (title != "one more segment")
    twins.maintain(MAINTENANCE["folded too late"])
    check(engine)


def test_an_optimized_index_finds_what_rows_have_now(
    tmp_path: Path, open_engine: Callable[[Path], QueryEngine]
):
    twins, engine = Twins(tmp_path), open_engine(tmp_path)
    stable = lance.dataset(twins.uris[0])
    stable.create_scalar_index("word", "BITMAP")
    stable.create_scalar_index("words", "LABEL_LIST")
    twins.change(1)
    twins.maintain(MAINTENANCE["one more segment"])
    conditions = (
        "word = 'old'",
        "word <> 'old'",
        "array_has_any(words, ['old'])",
        "n < 2 AND word = 'fresh'",
    )
    counts = [
        [
            engine.execute(f"SELECT count(*) AS n FROM {name} WHERE {condition}").read_all().to_pylist()
            for condition in conditions
        ]
        for name in TABLES
    ]
    assert counts[0] == counts[1]
    engine.prepare_statement("OPTIMIZE stable INDEXES").execute(())
    check(engine)
    assert "index=txt_idx" in explain(engine, "texts")
    for index in lance.dataset(twins.uris[0]).describe_indices():
        if index.name in {"txt_idx", "word_idx", "words_idx"}:
            assert len(index.segments) == 1, index.name
