"""Vector searches drawn at random, judged by the distances of all rows."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tests.oracle.answers.predicates import Draw
from tests.oracle.answers.ranked import DISTANCES, Key, Ranking
from tests.oracle.answers.search_rows import VECTOR, vector
from tests.oracle.answers.searched import Question, Searched

METRICS = ("l2", "cosine", "dot")
ALL_PARTITIONS = "nprobes => 1000, refine_factor => 1000, ef => 1000"
LAST = 1e30
"""Stands for the distance of a row that has none, where such rows count and come last."""

_FUNCTIONS = {"l2": "l2_distance", "cosine": "cosine_distance"}
_OPERATORS = {"l2": "<->", "cosine": "<=>", "dot": "<#>"}


def distance(left: Sequence[float], right: Sequence[float], metric: str) -> float:
    """Of two vectors, as Lance words it; NaN where there is none."""
    a, b = (np.asarray(side, np.float64) for side in (left, right))
    if metric == "l2":
        return float(((a - b) ** 2).sum())
    if metric == "hamming":
        return float(np.unpackbits(a.astype(np.uint8) ^ b.astype(np.uint8)).sum())
    if metric == "dot":
        return float(1 - a @ b)
    lengths = float(np.sqrt(a @ a) * np.sqrt(b @ b))
    return math.nan if lengths == 0 else float(1 - a @ b / lengths)


def distances(
    vectors: Iterable[tuple[Key, Sequence[float] | None]], query: Sequence[float], metric: str
) -> dict[Key, float]:
    """Of every row that has one."""
    known = {key: distance(one, query, metric) for key, one in vectors if one is not None}
    return {key: value for key, value in known.items() if not math.isnan(value)}


def literal(query: Sequence[float]) -> str:
    return "[" + ", ".join(map(repr, query)) + "]"


class Recall:
    """How much of the right answers approximate searches found."""

    def __init__(self) -> None:
        self.found = self.wanted = 0

    def count(self, found: int, wanted: int) -> None:
        self.found += found
        self.wanted += wanted

    def __float__(self) -> float:
        return self.found / self.wanted if self.wanted else 1.0


def nearest(draw: Draw, table: Searched, recall: Recall) -> Question:
    """``lance_vector_search`` with whatever options."""
    queries = [vector(draw, nullable=False) for _ in range(draw(st.sampled_from((1, 1, 1, 3))))]
    metric = draw(st.sampled_from((None, *METRICS)))
    k = draw(st.sampled_from((1, 2, 3, 7, 1000)))
    prefilter = draw(st.integers(0, 3)) > 0
    condition = table.condition(draw)
    index = table.index if metric is None or (table.index and table.index.metric == metric) else None
    effort = draw(st.sampled_from(("use_index => false", ALL_PARTITIONS, "")))
    catch_up = draw(st.sampled_from(("", "", "catch_up => 'always'")))
    exact = index is None or effort == "use_index => false" or (effort != "" and index.exact and not catch_up)
    if metric is None:
        metric = table.index.metric if table.index else "l2"
        named = ""
    else:
        named = f"metric => '{metric}'"
    passed, parameters = _passed(draw, queries)
    staleness = draw(st.sampled_from(("", "", "staleness => 'bloom'")))
    options = [named, effort, catch_up, staleness, "" if prefilter else "prefilter => false"]
    arguments = ", ".join(
        [f"'{table.name}'", f"'{table.vector}'", passed, f"k => {k}", *filter(None, options)]
    )
    several = len(queries) > 1
    columns = f"{'query_index, ' if several else ''}{table.selected_key}, _distance"
    where = "" if condition is None else f" WHERE {condition}"
    order = "query_index, _distance" if several else "_distance"
    sql = f"SELECT {columns} FROM lance_vector_search({arguments}){where} ORDER BY {order}"

    def judge(answer: pa.Table, context: str) -> None:
        satisfying = table.satisfying(condition)
        numbers = answer["query_index"].to_pylist() if several else [0] * answer.num_rows
        assert set(numbers) <= set(range(len(queries))), context
        pairs = list(zip(table.keys_of(answer), answer["_distance"].to_pylist(), strict=True))
        for number, query in enumerate(queries):
            known = distances(vectors_of(table), query, metric)
            if prefilter:
                known = {key: value for key, value in known.items() if key in satisfying}
            found = [pair for pair, of in zip(pairs, numbers, strict=True) if of == number]
            ranking = Ranking(known, DISTANCES)
            if exact:
                ranking.check(found, k, f"query {number}; {context}", kept=satisfying.__contains__)
            elif prefilter:
                _check_approximate(found, ranking, k, recall, context)

    return Question(sql, judge, parameters)


def ordered_by_distance(draw: Draw, table: Searched, recall: Recall) -> Question:
    """``ORDER BY`` a distance, which may be planned as a search and means what it says."""
    query = vector(draw, nullable=False)
    metric = draw(st.sampled_from(METRICS))
    if metric in _FUNCTIONS and draw(st.booleans()):
        expression = f"{_FUNCTIONS[metric]}({table.vector}, {literal(query)})"
    else:
        expression = f"{table.vector} {_OPERATORS[metric]} {literal(query)}"
    k, offset = draw(st.sampled_from((1, 3, 7, 1000))), draw(st.sampled_from((0, 0, 2)))
    nulls_first = not draw(st.integers(0, 3))
    condition = table.condition(draw)
    where = "" if condition is None else f" WHERE {condition}"
    order = expression + (" NULLS FIRST" if nulls_first else "") + draw(st.sampled_from(("", ", id")))
    page = f"LIMIT {k}" + (f" OFFSET {offset}" if offset else "")
    sql = f"SELECT {table.selected_key} FROM {table.name}{where} ORDER BY {order} {page}"

    def judge(answer: pa.Table, context: str) -> None:
        satisfying = table.satisfying(condition)
        vectors = [(key, one) for key, one in vectors_of(table) if key in satisfying]
        known = {key: -LAST if nulls_first else LAST for key, _ in vectors}
        known |= distances(vectors, query, metric)
        found = [(key, known.get(key, LAST)) for key in table.keys_of(answer)]
        ranking = Ranking(known, DISTANCES)
        if offset:
            exact = not (table.index and table.index.metric == metric)
            _check_page(found, ranking, offset, k, context, exact=exact)
        elif table.index and table.index.metric == metric:
            _check_approximate(found, ranking, k, recall, context)
        else:
            ranking.check(found, k, context)

    return Question(sql, judge)


def _check_page(
    found: Sequence[tuple[Key, float]], ranking: Ranking, offset: int, k: int, context: str, *, exact: bool
) -> None:
    """The rows after the first ones, best first."""
    shown = {key: ranking.scores[key] for key, _ in found if key in ranking.scores}
    Ranking(shown, DISTANCES).check(found, k, context)
    page = sorted(ranking.scores.values())[offset : offset + k]
    assert len(found) == len(page), f"{len(found)} rows instead of {len(page)}; {context}"
    for (key, actual), right in zip(found, page, strict=True):
        assert not exact or abs(actual - right) <= DISTANCES.slack(right), f"{key} is no such row; {context}"


def _check_approximate(
    found: Sequence[tuple[Key, float]], ranking: Ranking, k: int, recall: Recall, context: str
) -> None:
    """True distances of live rows, as many as there are; which of them is a matter of recall."""
    shown: Mapping[Key, float] = {key: ranking.scores[key] for key, _ in found if key in ranking.scores}
    Ranking(shown, DISTANCES).check(found, k, context)
    wanted = min(k, len(ranking.scores))
    assert len(found) == wanted, f"{len(found)} rows instead of {wanted}; {context}"
    if wanted:
        last = max(ranking.scores[key] for key in ranking.best(k))
        recall.count(sum(value <= last + DISTANCES.slack(last) for value in shown.values()), wanted)


def _passed(draw: Draw, queries: Sequence[Sequence[float]]) -> tuple[str, tuple[pa.Scalar, ...]]:
    """The queries as a statement gives them."""
    if len(queries) > 1:
        return "[" + ", ".join(map(literal, queries)) + "]", ()
    if draw(st.integers(0, 3)) == 0:
        return "$1", (pa.scalar(list(queries[0]), pa.list_(pa.float32())),)
    return f"{draw(st.sampled_from(('', 'ARRAY')))}{literal(queries[0])}", ()


def vectors_of(table: Searched) -> list[tuple[Key, Sequence[float] | None]]:
    """Of all rows."""
    column = table.rows[table.vector]
    assert column.type == VECTOR.type
    return list(zip(table.keys_of(table.rows), column.to_pylist(), strict=True))
