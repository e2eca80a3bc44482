"""From texts to terms: what a query asks of its columns, by their tokenizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from itertools import groupby

from execnodes.text.clauses import (
    BestClause,
    BooleanClause,
    BoostClause,
    Clause,
    CombinedClause,
    FuzzyClause,
    Group,
    TermsClause,
)
from execnodes.text.query import (
    MAX_FUZZINESS,
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    MatchQuery,
    MultiMatchQuery,
    PhraseQuery,
    TextQuery,
)
from execnodes.text.tokenizer import Token, Tokenizer
from memwal.errors import InvalidInputError

Tokenizers = Mapping[str, Tokenizer]


MAX_TERMS = 4_096
"""More terms than this are looked for by mistake: every one of them is looked up in every source."""


def analyze(query: TextQuery, tokenizers: Tokenizers) -> Clause:
    """What a query comes down to.

    Args:
        query: any kind.
        tokenizers: of each of its columns.

    Raises:
        InvalidInputError: there are too many terms, or combined columns have different tokenizers.
    """
    clause = clause_of(query, tokenizers)
    count = sum(map(len, clause.terms.values())) + sum(len(fuzzy.words) for fuzzy in clause.fuzzy)
    if count > MAX_TERMS:
        raise InvalidInputError(f"the text query looks for {count} terms, and {MAX_TERMS} are the most")
    return clause


@singledispatch
def clause_of(query: TextQuery, tokenizers: Tokenizers) -> Clause:
    """The clause of a query, see `analyze`."""
    raise TypeError(f"no text query: {query!r} for {tokenizers!r}")


@clause_of.register
def _match(query: MatchQuery, tokenizers: Tokenizers) -> Clause:
    tokenizer = tokenizers[query.column]
    if query.fuzziness == 0:
        return TermsClause(query.column, grouped(tokenizer.terms(query.text)), query.operator, query.boost)
    return FuzzyClause(
        query.column,
        tokenizer,
        tokenizer.words_as_written(query.text),
        MAX_FUZZINESS if query.fuzziness is None else query.fuzziness,
        query.fuzziness is None,
        query.prefix_length,
        query.max_expansions,
        query.operator,
        query.boost,
    )


@clause_of.register
def _phrase(query: PhraseQuery, tokenizers: Tokenizers) -> Clause:
    groups = grouped(tokenizers[query.column].terms(query.text))
    return TermsClause(query.column, groups, phrase=query)


@clause_of.register
def _multi_match(query: MultiMatchQuery, tokenizers: Tokenizers) -> Clause:
    return BestClause(tuple(_match(match, tokenizers) for match in query.matches))


@clause_of.register
def _combined_fields(query: CombinedFieldsQuery, tokenizers: Tokenizers) -> Clause:
    first, *others = query.columns
    for column in others:
        if tokenizers[column] != tokenizers[first]:
            raise InvalidInputError(
                f"columns {first} and {column} are tokenized differently, and combined fields must not be; "
                "multi_match searches them"
            )
    distinct = {token.text: token for token in tokenizers[first].terms(query.text)}
    return CombinedClause(query.columns, query.weights, tuple(distinct.values()), query.operator)


@clause_of.register
def _boolean(query: BooleanQuery, tokenizers: Tokenizers) -> Clause:
    must, should, must_not = (
        tuple(clause_of(part, tokenizers) for part in parts)
        for parts in (query.must, query.should, query.must_not)
    )
    return BooleanClause(must, should, must_not)


@clause_of.register
def _boost(query: BoostQuery, tokenizers: Tokenizers) -> Clause:
    positive, negative = (clause_of(part, tokenizers) for part in (query.positive, query.negative))
    return BoostClause(positive, negative, query.negative_boost)


def grouped(tokens: Sequence[Token]) -> tuple[Group, ...]:
    """Terms by their place in the text; at one place each counts once."""
    return tuple(
        tuple({token.text: token for token in group}.values())
        for _, group in groupby(tokens, key=lambda token: token.position)
    )
