"""Text queries as plans show them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from execnodes.text.query import (
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    MatchQuery,
    MultiMatchQuery,
    Operator,
    PhraseQuery,
    TextQuery,
)


@singledispatch
def told(query: TextQuery) -> str:
    """A query in a few words: ``streaming writes``, ``"write-ahead log"``, ``must(a b) should("c d")``."""
    raise TypeError(f"no text query: {query!r}")


@told.register
def _match(query: MatchQuery) -> str:
    text = repr(query.text)
    if query.operator is Operator.AND:
        text += " AND"
    if query.fuzziness:
        text += f" ~{query.fuzziness}"
    return text if query.boost == 1.0 else f"{text}^{query.boost:g}"


@told.register
def _phrase(query: PhraseQuery) -> str:
    text = f'"{query.text}"'
    return f"{text} ~{query.slop}" if query.slop else text


@told.register
def _multi_match(query: MultiMatchQuery) -> str:
    return f"best({_listed(query.matches)})"


@told.register
def _combined(query: CombinedFieldsQuery) -> str:
    return f"combined({query.text!r})"


@told.register
def _boolean(query: BooleanQuery) -> str:
    parts = (("must", query.must), ("should", query.should), ("must_not", query.must_not))
    return " ".join(f"{name}({_listed(queries)})" for name, queries in parts if queries)


@told.register
def _boost(query: BoostQuery) -> str:
    return f"{told(query.positive)} less {query.negative_boost:g} of {told(query.negative)}"


def _listed(queries: Sequence[TextQuery]) -> str:
    return ", ".join(map(told, queries))
