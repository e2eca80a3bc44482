"""Clauses: queries whose texts are converted to terms of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import groupby

import numpy as np

from lance_gateway.execnodes.text.query.query import (
    MAX_FUZZINESS,
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    MatchQuery,
    MultiMatchQuery,
    Operator,
    PhraseQuery,
    TextQuery,
    choose_fuzziness,
)
from lance_gateway.execnodes.text.query.tokenizer import Token, Tokenizer
from lance_gateway.memwal.errors import InvalidInputError


def find_near_terms(word: str, terms: Sequence[str], fuzziness: int, prefix_length: int) -> list[str]:
    """Return the terms within an edit distance of a word, in their order.

    Args:
        word: as it is written.
        terms: to look among.
        fuzziness: characters that may be inserted, deleted or replaced.
        prefix_length: so many first characters of the word take no edits.
    """
    prefix = word[:prefix_length]
    possible = [term for term in terms if abs(len(term) - len(word)) <= fuzziness and term.startswith(prefix)]
    if not possible:
        return []
    close = compute_edit_distances(word, possible) <= fuzziness
    return [term for term, is_close in zip(possible, close.tolist(), strict=True) if is_close]


def compute_edit_distances(word: str, terms: Sequence[str]) -> np.ndarray:
    """Return the edit distances (int32) of a word to each term; there must be one.

    All terms go through the table of prefixes' distances side by side, one character of theirs at a time.
    """
    lengths = np.fromiter(map(len, terms), np.int64, len(terms))
    width = int(lengths.max())
    letters = np.array(terms, dtype=f"<U{max(width, 1)}").view(np.uint32).reshape(len(terms), -1)
    row = np.tile(np.arange(len(word) + 1, dtype=np.int32), (len(terms), 1))
    found = np.where(lengths == 0, len(word), 0).astype(np.int32)
    for column in range(width):
        before = row
        row = np.empty_like(before)
        row[:, 0] = column + 1
        for place, letter in enumerate(word):
            replaced = before[:, place] + (letters[:, column] != ord(letter))
            row[:, place + 1] = np.minimum(replaced, np.minimum(before[:, place + 1], row[:, place]) + 1)
        ends = lengths == column + 1
        found[ends] = row[ends, -1]
    return found


Group = tuple[Token, ...]
"""Terms of which one will do: the expansions of a word, or what an identifier is made of."""


@dataclass(frozen=True, slots=True)
class Clause:
    """An analyzed query, whose texts are terms."""

    @property
    def parts(self) -> tuple[Clause, ...]:
        """The direct subclauses."""
        return ()

    def own_terms(self) -> Iterable[tuple[str, Token]]:
        """Return column and term of each term of this clause, without its parts."""
        return ()

    def walk(self) -> Iterator[Clause]:
        """Yield this clause and all clauses below it."""
        yield self
        for part in self.parts:
            yield from part.walk()

    @property
    def terms(self) -> dict[str, dict[str, str | None]]:
        """Surface form by term by column, of all parts; None if no text has the term as its only token."""
        found: dict[str, dict[str, str | None]] = {}
        for clause in self.walk():
            for column, token in clause.own_terms():
                found.setdefault(column, {}).setdefault(token.text, token.surface)
        return found

    @property
    def fuzzy(self) -> tuple[FuzzyClause, ...]:
        """Fuzzy clauses, which must be expanded before scoring."""
        return tuple(clause for clause in self.walk() if isinstance(clause, FuzzyClause))

    @property
    def phrases(self) -> tuple[PhraseQuery, ...]:
        """Clauses that need positions."""
        found = (clause.phrase for clause in self.walk() if isinstance(clause, TermsClause))
        return tuple(phrase for phrase in found if phrase is not None)

    def expand(self, expand: Callable[[FuzzyClause], TermsClause]) -> Clause:
        """Return the clause with fuzzy words replaced by terms.

        Args:
            expand: such as `FuzzyClause.replace_words`, by one who knows what terms there are.
        """
        match self:
            case FuzzyClause():
                return expand(self)
            case BestClause(clauses):
                return BestClause(tuple(clause.expand(expand) for clause in clauses))
            case BooleanClause(must, should, must_not):
                return BooleanClause(
                    tuple(clause.expand(expand) for clause in must),
                    tuple(clause.expand(expand) for clause in should),
                    tuple(clause.expand(expand) for clause in must_not),
                )
            case BoostClause(positive, negative):
                return replace(self, positive=positive.expand(expand), negative=negative.expand(expand))
            case _:
                return self


@dataclass(frozen=True, slots=True)
class TermsClause(Clause):
    """Terms of one column: any of them, all of them, or a phrase.

    Attributes:
        column: of the table.
        groups: terms by their place in the query's text; every term scores, as often as it is here.
        operator: whether one of each group is needed, or one of all.
        boost: multiplies scores.
        phrase: the query, where the groups must follow each other.
    """

    column: str
    groups: tuple[Group, ...]
    operator: Operator = Operator.OR
    boost: float = 1.0
    phrase: PhraseQuery | None = None

    @property
    def takes_any(self) -> bool:
        """Whether one of the terms is enough to match."""
        return self.operator is Operator.OR and self.phrase is None

    def own_terms(self) -> Iterable[tuple[str, Token]]:
        """Return column and term of each term; repeated terms are repeated."""
        return [(self.column, token) for group in self.groups for token in group]


@dataclass(frozen=True, slots=True)
class FuzzyClause(Clause):
    """Words of one column that may be misspelt; it can't be scored before it is expanded.

    Attributes:
        column: of the table.
        tokenizer: of the column, for the surfaces of what the words stand for.
        words: as the query has them.
        fuzziness: edits allowed, at most.
        automatic: whether short words are allowed fewer.
        prefix_length: first characters that take none.
        max_expansions: terms that all words together may stand for.
        operator: whether all words are needed.
        boost: multiplies scores.
    """

    column: str
    tokenizer: Tokenizer
    words: tuple[Token, ...]
    fuzziness: int
    automatic: bool
    prefix_length: int
    max_expansions: int
    operator: Operator
    boost: float

    def edits(self, word: Token) -> int:
        """Return the edit distance that is allowed for a word."""
        return choose_fuzziness(word.text) if self.automatic else self.fuzziness

    def replace_words(self, terms: Iterable[str]) -> TermsClause:
        """Return the clause with words replaced by the matching terms.

        Words take what is near to them in the order of the words, and terms in the order of their bytes,
        until there are `max_expansions`.

        Args:
            terms: of the live documents: at least all that are near to a word, and none of dead ones.
        """
        known = sorted(set(terms), key=str.encode)
        groups: list[Group] = []
        left = self.max_expansions
        for word in self.words:
            found = find_near_terms(word.text, known, self.edits(word), self.prefix_length)[:left]
            left -= len(found)
            surfaces = self.tokenizer.find_surfaces(found)
            groups.append(tuple(Token(term, word.position, surfaces.get(term)) for term in found))
        if self.operator is Operator.AND and not all(groups):
            groups = []
        return TermsClause(self.column, tuple(group for group in groups if group), self.operator, self.boost)


@dataclass(frozen=True, slots=True)
class BestClause(Clause):
    """The maximum of several clauses."""

    clauses: tuple[Clause, ...]

    @property
    def parts(self) -> tuple[Clause, ...]:
        """The direct subclauses."""
        return self.clauses


@dataclass(frozen=True, slots=True)
class CombinedClause(Clause):
    """Terms of several columns that are scored as one column: BM25F.

    Attributes:
        columns: of the table.
        weights: one per column; a token of a column counts so often.
        tokens: distinct terms; each scores once.
        operator: whether all are needed, in whatever columns.
    """

    columns: tuple[str, ...]
    weights: tuple[float, ...]
    tokens: tuple[Token, ...]
    operator: Operator

    def own_terms(self) -> Iterable[tuple[str, Token]]:
        """Return column and term, for all terms in each column."""
        return [(column, token) for column in self.columns for token in self.tokens]


@dataclass(frozen=True, slots=True)
class BooleanClause(Clause):
    """All of `must` and none of `must_not`; without `must`, at least one of `should`. Scores add up."""

    must: tuple[Clause, ...]
    should: tuple[Clause, ...]
    must_not: tuple[Clause, ...]

    @property
    def scoring(self) -> tuple[Clause, ...]:
        """The clauses whose scores are added."""
        return (*self.must, *self.should)

    @property
    def parts(self) -> tuple[Clause, ...]:
        """The direct subclauses."""
        return (*self.must, *self.should, *self.must_not)


@dataclass(frozen=True, slots=True)
class BoostClause(Clause):
    """Matches of `positive`; a part of the score of `negative` is subtracted from theirs."""

    positive: Clause
    negative: Clause
    negative_boost: float

    @property
    def parts(self) -> tuple[Clause, ...]:
        """The direct subclauses."""
        return (self.positive, self.negative)


Tokenizers = Mapping[str, Tokenizer]


MAX_TERMS = 4_096
"""More terms than this are looked for by mistake: every one of them is looked up in every source."""


def analyze(query: TextQuery, tokenizers: Tokenizers) -> Clause:
    """Convert a query to a clause.

    Args:
        query: any kind.
        tokenizers: of each of its columns.

    Raises:
        InvalidInputError: there are too many terms, or combined columns have different tokenizers.
    """
    clause = build_clause(query, tokenizers)
    count = sum(map(len, clause.terms.values())) + sum(len(fuzzy.words) for fuzzy in clause.fuzzy)
    if count > MAX_TERMS:
        raise InvalidInputError(f"the text query looks for {count} terms, and {MAX_TERMS} are the most")
    return clause


@singledispatch
def build_clause(query: TextQuery, tokenizers: Tokenizers) -> Clause:
    """Build the clause of a query."""
    raise TypeError(f"no text query: {query!r} for {tokenizers!r}")


@build_clause.register
def _build_match(query: MatchQuery, tokenizers: Tokenizers) -> Clause:
    tokenizer = tokenizers[query.column]
    if query.fuzziness == 0:
        return TermsClause(
            query.column, group_terms(tokenizer.terms(query.text)), query.operator, query.boost
        )
    return FuzzyClause(
        query.column,
        tokenizer,
        tokenizer.list_unmodified_words(query.text),
        MAX_FUZZINESS if query.fuzziness is None else query.fuzziness,
        query.fuzziness is None,
        query.prefix_length,
        query.max_expansions,
        query.operator,
        query.boost,
    )


@build_clause.register
def _build_phrase(query: PhraseQuery, tokenizers: Tokenizers) -> Clause:
    groups = group_terms(tokenizers[query.column].terms(query.text))
    return TermsClause(query.column, groups, phrase=query)


@build_clause.register
def _build_multi_match(query: MultiMatchQuery, tokenizers: Tokenizers) -> Clause:
    return BestClause(tuple(_build_match(match, tokenizers) for match in query.matches))


@build_clause.register
def _build_combined_fields(query: CombinedFieldsQuery, tokenizers: Tokenizers) -> Clause:
    first, *others = query.columns
    for column in others:
        if tokenizers[column] != tokenizers[first]:
            raise InvalidInputError(
                f"columns {first} and {column} are tokenized differently, and combined fields must not be; "
                "multi_match searches them"
            )
    distinct = {token.text: token for token in tokenizers[first].terms(query.text)}
    return CombinedClause(query.columns, query.weights, tuple(distinct.values()), query.operator)


@build_clause.register
def _build_boolean(query: BooleanQuery, tokenizers: Tokenizers) -> Clause:
    must, should, must_not = (
        tuple(build_clause(part, tokenizers) for part in parts)
        for parts in (query.must, query.should, query.must_not)
    )
    return BooleanClause(must, should, must_not)


@build_clause.register
def _build_boost(query: BoostQuery, tokenizers: Tokenizers) -> Clause:
    positive, negative = (build_clause(part, tokenizers) for part in (query.positive, query.negative))
    return BoostClause(positive, negative, query.negative_boost)


def group_terms(tokens: Sequence[Token]) -> tuple[Group, ...]:
    """Group terms by their position in the text; without duplicates at one position."""
    return tuple(
        tuple({token.text: token for token in group}.values())
        for _, group in groupby(tokens, key=lambda token: token.position)
    )
