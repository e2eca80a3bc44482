"""How deep the list of a term's documents must be read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_gateway.execnodes.text.bm25 import compute_weight
from lance_gateway.execnodes.text.scoring.impacts import Impacts

documents = st.lists(st.tuples(st.integers(1, 500), st.integers(0, 10_000)), min_size=1, max_size=30)
averages = st.floats(0.5, 5_000)


@pytest.mark.slow
@settings(derandomize=True, max_examples=100, deadline=None)
@given(documents, averages, averages)
def test_no_later_document_is_worth_more_than_the_bound(
    made: list[tuple[int, int]], reference: float, average: float
):
    """Whatever the average length has become since the list was put in order."""
    frequencies = np.array([frequency for frequency, _ in made])
    lengths = frequencies + np.array([others for _, others in made])
    listed = Impacts.of(compute_weight(frequencies, lengths, reference), reference)
    now = compute_weight(frequencies, lengths, average)[listed.order]
    for seen in range(len(made)):
        assert now[seen:].max() <= listed.bound(seen, average)
    assert listed.bound(len(made), average) == 0


def test_the_best_documents_come_first():
    listed = Impacts.of(np.array([0.5, 2.0, 1.0]), 10.0)
    assert listed.order.tolist() == [1, 2, 0]
    assert listed.bound(0, 5.0) >= 2.0
    assert np.isclose(listed.bound(1, 20.0), 2.0), "twice the average length, at most twice the weight"
