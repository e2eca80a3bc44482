"""Text queries in Lance's terms: frozen trees of matches, phrases and their combinations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import singledispatch

from lance import query as lance_queries

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError

MAX_FUZZINESS = 2
"""Edits that a fuzzy word may need: as the field has it; Lance's automata grow out of bounds soon after."""
MAX_EXPANSIONS = 1_000
"""More expansions of fuzzy words than this are asked for by mistake."""
MAX_SLOP = 1_000_000
"""More words than this between two words of a phrase are asked for by mistake."""
MAX_BOOST = 1e12
"""Scores stay finite below it."""
MAX_COMBINED_BOOST = float(2**20)
"""Lance's own bound for the weight of a column among combined ones."""
MAX_DEPTH = 32
"""Queries nested deeper than this are written by mistake, or by somebody who means harm."""


class Operator(Enum):
    """Whether a match needs all words or any of them; the value is Lance's name for it."""

    AND = "AND"
    OR = "OR"


@dataclass(frozen=True, slots=True)
class MatchQuery:
    """Rows whose column has one of the words (or all), scored by BM25.

    Args:
        text: words; the column's own tokenizer takes it apart.
        column: a text column of the table.
        operator: whether all words must be there.
        boost: multiplies the scores; zero keeps the rows.
        fuzziness: so many edits (insert, delete, replace a character) may lie between a word and a term of
            the column; None for as many as a word's length suggests, see `choose_fuzziness`. Words of a
            fuzzy match are compared as they are written: no case folding, no stemming.
        prefix_length: so many first characters of a word take no edits.
        max_expansions: so many terms, of all its words together, a fuzzy match may stand for.

    Raises:
        InvalidInputError: an argument is out of bounds.
    """

    text: str
    column: str
    operator: Operator = Operator.OR
    boost: float = 1.0
    fuzziness: int | None = 0
    prefix_length: int = 0
    max_expansions: int = 50

    def __post_init__(self) -> None:
        check_column(self.column)
        check_weight("boost", self.boost)
        check_range("fuzziness", self.fuzziness or 0, 0, MAX_FUZZINESS)
        check_range("prefix_length", self.prefix_length, 0, MAX_SLOP)
        check_range("max_expansions", self.max_expansions, 1, MAX_EXPANSIONS)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the query reads, without duplicates."""
        return (self.column,)

    @property
    def depth(self) -> int:
        """Nesting depth of the query."""
        return 1


@dataclass(frozen=True, slots=True)
class PhraseQuery:
    """Rows whose column has these words one after another.

    Args:
        text: the words; the column's own tokenizer takes them apart, and removed stop words leave gaps.
        column: a text column of the table.
        slop: so many further words may stand between any two words that follow each other.

    Raises:
        InvalidInputError: an argument is out of bounds.
    """

    text: str
    column: str
    slop: int = 0

    def __post_init__(self) -> None:
        check_column(self.column)
        check_range("slop", self.slop, 0, MAX_SLOP)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the query reads, without duplicates."""
        return (self.column,)

    @property
    def depth(self) -> int:
        """Nesting depth of the query."""
        return 1


@dataclass(frozen=True, slots=True)
class MultiMatchQuery:
    """Matches of several columns; a row's score is that of its best one.

    Args:
        matches: at least one.

    Raises:
        InvalidInputError: no matches.
    """

    matches: tuple[MatchQuery, ...]

    def __post_init__(self) -> None:
        if not self.matches:
            raise InvalidInputError("a multi-match needs the match of at least one column")

    @staticmethod
    def of(
        text: str,
        columns: tuple[str, ...],
        boosts: tuple[float, ...] = (),
        operator: Operator = Operator.OR,
    ) -> MultiMatchQuery:
        """Build a query for the same words in each of the columns.

        Args:
            text: words, taken apart by each column's tokenizer.
            columns: text columns of the table.
            boosts: one per column; empty for 1 each.
            operator: whether a column must have all of the words.

        Raises:
            InvalidInputError: no columns, or not as many boosts, or a boost that isn't one.
        """
        check_columns(columns, boosts)
        boosts = boosts or (1.0,) * len(columns)
        return MultiMatchQuery(
            tuple(
                MatchQuery(text, column, operator, boost)
                for column, boost in zip(columns, boosts, strict=True)
            )
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the query reads, without duplicates."""
        return tuple(dict.fromkeys(match.column for match in self.matches))

    @property
    def depth(self) -> int:
        """Nesting depth of the query."""
        return 1


@dataclass(frozen=True, slots=True)
class CombinedFieldsQuery:
    """A match over several columns as if they were one: BM25F.

    Args:
        text: words; the columns must share one tokenizer.
        columns: text columns of the table.
        boosts: weight of each column, at least 1; empty for 1 each.
        operator: whether all of the words must be there, in any of the columns.

    Raises:
        InvalidInputError: no columns, or not as many boosts, or a boost out of bounds.
    """

    text: str
    columns: tuple[str, ...]
    boosts: tuple[float, ...] = ()
    operator: Operator = Operator.OR

    def __post_init__(self) -> None:
        check_columns(self.columns, self.boosts)
        for boost in self.boosts:
            if not 1.0 <= boost <= MAX_COMBINED_BOOST:
                raise InvalidInputError(
                    f"boost {boost} of combined fields: a number from 1 to {MAX_COMBINED_BOOST:.0f} is needed"
                )

    @property
    def weights(self) -> tuple[float, ...]:
        """One weight per column."""
        return self.boosts or (1.0,) * len(self.columns)

    @property
    def depth(self) -> int:
        """Nesting depth of the query."""
        return 1


@dataclass(frozen=True, slots=True)
class BooleanQuery:
    """Rows that match all of `must` and none of `must_not`; without `must`, at least one of `should`.

    The scores of `must`, and of whatever of `should` matches, are added up.

    Raises:
        InvalidInputError: nothing in `must` and `should`, or nested too deeply.
    """

    must: tuple[TextQuery, ...] = ()
    should: tuple[TextQuery, ...] = ()
    must_not: tuple[TextQuery, ...] = ()

    def __post_init__(self) -> None:
        if not self.must and not self.should:
            raise InvalidInputError(
                "a boolean text query needs a query under must or should; must_not only leaves out rows"
            )
        check_depth(self.depth)

    @property
    def parts(self) -> tuple[TextQuery, ...]:
        """All direct subqueries."""
        return (*self.must, *self.should, *self.must_not)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the query reads, without duplicates."""
        return tuple(dict.fromkeys(column for part in self.parts for column in part.columns))

    @property
    def depth(self) -> int:
        """Nesting depth of the query."""
        return 1 + max(part.depth for part in self.parts)


@dataclass(frozen=True, slots=True)
class BoostQuery:
    """Rows that match `positive`; those that match `negative` too lose a part of its score.

    Args:
        positive: decides what matches.
        negative: takes nothing away from what matches, but moves it down.
        negative_boost: multiplies the scores that are subtracted; scores may become negative.

    Raises:
        InvalidInputError: an argument is out of bounds, or nested too deeply.
    """

    positive: TextQuery
    negative: TextQuery
    negative_boost: float = 0.5

    def __post_init__(self) -> None:
        check_weight("negative_boost", self.negative_boost)
        check_depth(self.depth)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the query reads, without duplicates."""
        return tuple(dict.fromkeys((*self.positive.columns, *self.negative.columns)))

    @property
    def depth(self) -> int:
        """Nesting depth of the query."""
        return 1 + max(self.positive.depth, self.negative.depth)


TextQuery = MatchQuery | PhraseQuery | MultiMatchQuery | CombinedFieldsQuery | BooleanQuery | BoostQuery
"""What may be asked of a table's text."""


@singledispatch
def convert_to_lance_query(query: TextQuery) -> lance_queries.FullTextQuery:
    """Convert a query to pylance's class."""
    raise TypeError(f"no text query: {query!r}")


@convert_to_lance_query.register
def _convert_match(query: MatchQuery) -> lance_queries.FullTextQuery:
    return lance_queries.MatchQuery(
        query.text,
        query.column,
        boost=query.boost,
        fuzziness=query.fuzziness,
        max_expansions=query.max_expansions,
        operator=lance_queries.FullTextOperator(query.operator.value),
        prefix_length=query.prefix_length,
    )


@convert_to_lance_query.register
def _convert_phrase(query: PhraseQuery) -> lance_queries.FullTextQuery:
    return lance_queries.PhraseQuery(query.text, query.column, slop=query.slop)


@convert_to_lance_query.register
def _convert_multi_match(query: MultiMatchQuery) -> lance_queries.FullTextQuery:
    first, *others = query.matches
    if any(replace(match, column=first.column, boost=first.boost) != first for match in others) or (
        replace(first, operator=Operator.OR, boost=1.0) != MatchQuery(first.text, first.column)
    ):
        raise UnsupportedError("pylance takes multi-matches of the same plain words in each column only")
    return lance_queries.MultiMatchQuery(
        first.text,
        [match.column for match in query.matches],
        boosts=[match.boost for match in query.matches],
        operator=lance_queries.FullTextOperator(first.operator.value),
    )


@convert_to_lance_query.register
def _convert_combined_fields(query: CombinedFieldsQuery) -> lance_queries.FullTextQuery:
    return lance_queries.CombinedFieldsQuery(
        query.text,
        list(query.columns),
        boosts=list(query.boosts) or None,
        operator=lance_queries.FullTextOperator(query.operator.value),
    )


@convert_to_lance_query.register
def _convert_boolean(query: BooleanQuery) -> lance_queries.FullTextQuery:
    occurrences = (
        (lance_queries.Occur.MUST, query.must),
        (lance_queries.Occur.SHOULD, query.should),
        (lance_queries.Occur.MUST_NOT, query.must_not),
    )
    return lance_queries.BooleanQuery(
        [(occur, convert_to_lance_query(part)) for occur, parts in occurrences for part in parts]
    )


@convert_to_lance_query.register
def _convert_boost(query: BoostQuery) -> lance_queries.FullTextQuery:
    return lance_queries.BoostQuery(
        convert_to_lance_query(query.positive),
        convert_to_lance_query(query.negative),
        negative_boost=query.negative_boost,
    )


def choose_fuzziness(word: str) -> int:
    """Return the edits allowed for a word by its length in bytes: 0 up to 2, 1 up to 5, then 2."""
    length = len(word.encode())
    return 0 if length <= 2 else 1 if length <= 5 else 2


def check_column(column: str) -> None:
    """Refuse a column without a name."""
    if not column:
        raise InvalidInputError("a text query needs the name of a column")


def check_columns(columns: tuple[str, ...], boosts: tuple[float, ...]) -> None:
    """Refuse missing or repeated columns, and a wrong number of boosts."""
    if not columns:
        raise InvalidInputError("a text query over several columns needs the names of columns")
    for column in columns:
        check_column(column)
    if len(set(columns)) < len(columns):
        raise InvalidInputError(f"columns {', '.join(columns)}: a text query names each column once")
    if boosts and len(boosts) != len(columns):
        raise InvalidInputError(
            f"{len(boosts)} boosts for {len(columns)} columns: one for each column is needed"
        )


def check_weight(name: str, value: float) -> None:
    """Refuse a weight that is not between 0 and `MAX_BOOST`."""
    if not 0 <= value <= MAX_BOOST:
        raise InvalidInputError(f"{name} {value}: a number from 0 to {MAX_BOOST:.0e} is needed")


def check_range(name: str, value: int, low: int, high: int) -> None:
    """Refuse a number that is out of bounds."""
    if not low <= value <= high:
        raise InvalidInputError(f"{name} {value}: a whole number from {low} to {high} is needed")


def check_depth(depth: int) -> None:
    """Refuse queries that are nested too deep."""
    if depth > MAX_DEPTH:
        raise InvalidInputError(f"a text query nested {depth} levels deep: {MAX_DEPTH} are the most")
