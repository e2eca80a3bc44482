"""Conditions decide what may be found, not what counts in the statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_gateway.execnodes.rows.row_mask import RowMask, build_fragment_mask
from lance_gateway.execnodes.text.query.query import MatchQuery
from tests.planner.search.texts.text_history import Layer, TextHistory, assert_same_ranking, lance_ranking

WORDS = MatchQuery("red green", "body")


@dataclass(frozen=True)
class IdBelow:
    """A row filter that Lance can say, or can't."""

    limit: int
    can_be_said: bool

    @property
    def columns(self) -> frozenset[str]:
        return frozenset({"id"})

    def sql(self, names: Mapping[str, str]) -> str | None:
        return f"{names['id']} < {self.limit}" if self.can_be_said else None

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return pc.less(batch.column("id"), self.limit)


@pytest.fixture
def history(tmp_path: Path) -> TextHistory:
    made = TextHistory(tmp_path)
    made.add(Layer([(n, ("red " * (n % 4) + "green " * (n % 3),)) for n in range(30)], rows_per_file=7))
    made.add(Layer([(n, ("green red red",)) for n in range(5, 40, 7)]))
    made.add(Layer([(n, ("green " * n,)) for n in (1, 8, 50)], "tail"))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("can_be_said", [True, False])
@pytest.mark.parametrize("limit", [0, 1, 9, 1_000])
def test_a_row_filter_applies_before_ranking(history: TextHistory, limit: int, *, can_be_said: bool):
    everything = lance_ranking(history.merged(), WORDS)
    wanted = {key: score for key, score in everything.items() if key < limit}
    for k in (2, 100):
        found = history.search(WORDS, k, row_filter=IdBelow(limit, can_be_said))
        assert_same_ranking(found, wanted, k)


def test_rows_that_may_not_be_found_still_count(history: TextHistory):
    everything = lance_ranking(history.merged(), WORDS)
    sources = history.sources()
    shown = dict(sources[0].live.fragments)
    shown[0] = build_fragment_mask(7, np.arange(7), shown.get(0))
    admitted = [replace(sources[0], live=RowMask(shown)), *sources[1:]]
    wanted = {key: score for key, score in everything.items() if key > 6 or key in {5, 1}}
    assert_same_ranking(history.search(WORDS, 100, admitted=admitted), wanted, 100)


def test_sources_without_candidates_still_count(history: TextHistory):
    everything = lance_ranking(history.merged(), WORDS)
    found = history.search(WORDS, 100, admitted=history.sources()[2:])
    assert_same_ranking(found, {key: everything[key] for key in (1, 8, 50)}, 100)


def test_nothing_to_search(tmp_path: Path):
    empty = TextHistory(tmp_path)
    empty.add(Layer([(1, ("red",))], deleted=frozenset({1})))
    assert empty.search(WORDS) == []
