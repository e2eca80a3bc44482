"""Hybrid searches drawn at random, judged by fusing what both branches must find."""

from collections.abc import Mapping

import pyarrow as pa
from hypothesis import strategies as st
from lance.query import MatchQuery

from tests.oracle.answers.predicates import Draw
from tests.oracle.answers.ranked import DISTANCES, SCORES, Closeness, Key, Ranking
from tests.oracle.answers.search_rows import vector
from tests.oracle.answers.searched import Question, Searched
from tests.oracle.answers.text_answers import scores, words
from tests.oracle.answers.vector_answers import METRICS, Recall, distances, literal, vectors_of

POINTS = Closeness(value=1e-3, order=1e-3, floor=1e-3)
SAME = 1e-4
"""Branches whose numbers span less than this are of no use for telling what they scale to."""


def found_by_both(draw: Draw, table: Searched, _: Recall) -> Question:
    """``lance_hybrid_search`` with either fusion."""
    query, text = vector(draw, nullable=False), words(draw)
    column = draw(st.sampled_from(table.text))
    metric = draw(st.sampled_from(METRICS))
    k, factor = draw(st.sampled_from(((1, 4), (3, 2), (3, 4), (5, 200), (1000, 1))))
    alpha = draw(st.sampled_from((0.0, 0.3, 0.5, 1.0)))
    reciprocal = draw(st.booleans())
    condition = table.condition(draw)
    fusion = "fusion => 'rrf'" if reciprocal else f"alpha => {alpha}"
    options = f"k => {k}, oversample_factor => {factor}, metric => '{metric}', use_index => false, {fusion}"
    called = f"'{table.name}', '{table.vector}', {literal(query)}, '{column}', '{text}', {options}"
    columns = f"{table.selected_key}, _distance, _score, _hybrid_score"
    where = "" if condition is None else f" WHERE {condition}"
    sql = f"SELECT {columns} FROM lance_hybrid_search({called}){where} ORDER BY _hybrid_score DESC"

    def judge(answer: pa.Table, context: str) -> None:
        shown = table.satisfying(condition)
        near, matching = (
            Ranking({key: value for key, value in known.items() if key in shown}, closeness, descending)
            for known, closeness, descending in (
                (distances(vectors_of(table), query, metric), DISTANCES, False),
                (scores(table, MatchQuery(text, column)), SCORES, True),
            )
        )
        _check_branches(answer, table, near, matching, context)
        if near.ties(k * factor) or matching.ties(k * factor):
            return  # which of the equals a branch gives is its own business, and decides
        found = list(zip(table.keys_of(answer), answer["_hybrid_score"].to_pylist(), strict=True))
        if reciprocal:
            _check_reciprocal(found, near, matching, k, k * factor, context)
            return
        scaled = [_scaled(branch, k * factor) for branch in (near, matching)]
        if None not in scaled:
            points = _weighted(scaled[0] or {}, scaled[1] or {}, alpha)
            Ranking(points, POINTS, descending=True).check(found, k, context)

    return Question(sql, judge)


def _check_branches(
    answer: pa.Table, table: Searched, near: Ranking, matching: Ranking, context: str
) -> None:
    """Distances and scores are those of the rows, where they are told."""
    keys = table.keys_of(answer)
    assert len(set(keys)) == len(keys), f"a row is found twice: {keys}; {context}"
    for column, ranking in (("_distance", near), ("_score", matching)):
        for key, value in zip(keys, answer[column].to_pylist(), strict=True):
            if value is not None:
                assert key in ranking.scores, f"{key} has no {column}; {context}"
                right = ranking.scores[key]
                assert ranking.closeness.same(value, right), (
                    f"{key}: {column} {value}, not {right}; {context}"
                )
    for key, *both in zip(keys, *(answer[name].to_pylist() for name in ("_distance", "_score")), strict=True):
        assert any(value is not None for value in both), f"{key} was found by nobody; {context}"


def _scaled(branch: Ranking, candidates: int) -> dict[Key, float] | None:
    """The worst candidate as 0, the best as 1; None where rounding decides."""
    best = branch.best(candidates)
    values = [branch.scores[key] for key in best]
    width = max(values, default=0.0) - min(values, default=0.0)
    if len(values) < 2 or width == 0:
        return dict.fromkeys(best, 0.5)
    if width < SAME:
        return None
    worst = min(values) if branch.descending else max(values)
    return {key: abs(value - worst) / width for key, value in zip(best, values, strict=True)}


def _weighted(near: Mapping[Key, float], matching: Mapping[Key, float], alpha: float) -> dict[Key, float]:
    return {
        key: alpha * near.get(key, 0.0) + (1 - alpha) * matching.get(key, 0.0)
        for key in near.keys() | matching.keys()
    }


def _check_reciprocal(
    found: list[tuple[Key, float]],
    near: Ranking,
    matching: Ranking,
    k: int,
    candidates: int,
    context: str,
) -> None:
    """Every score is one that some order of the equals gives."""
    bounds: dict[Key, tuple[float, float]] = {}
    for branch in (near, matching):
        best = branch.best(candidates)
        for key in best:
            slack = branch.closeness.slack(branch.scores[key])
            apart = [(branch.scores[key] - branch.scores[other]) for other in best]
            ahead = sum(gap < -slack if branch.descending else gap > slack for gap in apart)
            equal = sum(abs(gap) <= slack for gap in apart)
            least, most = bounds.get(key, (0.0, 0.0))
            bounds[key] = (least + 1 / (60 + ahead + equal), most + 1 / (61 + ahead))
    assert len(found) == min(k, len(bounds)), f"{len(found)} rows of {len(bounds)}; {context}"
    for key, score in found:
        least, most = bounds[key]
        assert least * 0.999 <= score <= most * 1.001, f"{key}: {score}, not {least}..{most}; {context}"
    if found:
        last = min(score for _, score in found)
        better = {key for key, (least, _) in bounds.items() if least > last * 1.001}
        missing = better - {key for key, _ in found}
        assert not missing, f"{missing} are missing; {context}"
