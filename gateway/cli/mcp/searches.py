"""SQL that the tools write."""

from collections.abc import Sequence
from dataclasses import dataclass

from lance_gateway.memwal.errors import InvalidInputError


def quote(name: str) -> str:
    """Return a name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def format_text(value: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Search:
    """A search for the best rows of a table, by text, by vector, or by both.

    Args:
        table: its name.
        text: words, a phrase in double quotes, or a JSON object; with `text_column`.
        text_column: with a text index.
        vector: numbers, as many as the column's vectors have; with `vector_column`.
        vector_of: a query that returns the vector, in place of `vector`.
        vector_column: a column of vectors.
        columns: to return, beside the scores; None returns all.
        where: an SQL condition that rows must fulfil.
        k: rows wanted.

    Raises:
        InvalidInputError: it is not clear what is searched for.
    """

    table: str
    text: str | None
    text_column: str | None
    vector: Sequence[float] | None
    vector_of: str | None
    vector_column: str | None
    columns: Sequence[str] | None
    where: str | None
    k: int

    def __post_init__(self) -> None:
        if self.vector is not None and self.vector_of is not None:
            raise InvalidInputError("both vector and vector_of are given: give one of them")
        if (self.text is None) != (self.text_column is None):
            raise InvalidInputError("text and text_column belong together: give both, or neither")
        if (self._vector_sql is None) != (self.vector_column is None):
            raise InvalidInputError(
                "a vector (vector or vector_of) and vector_column belong together: give both, or neither"
            )
        if self.text is None and self.vector_column is None:
            raise InvalidInputError("nothing is searched for: give a text or a vector, and its column")

    @property
    def _vector_sql(self) -> str | None:
        if self.vector is not None:
            return "[" + ", ".join(map(repr, self.vector)) + "]"
        return None if self.vector_of is None else f"({self.vector_of}\n)"

    def build_sql(self) -> str:
        """Return the statement."""
        arguments = [format_text(self.table)]
        if self.vector_column is not None:
            arguments += [format_text(self.vector_column), str(self._vector_sql)]
        if self.text_column is not None:
            arguments += [format_text(self.text_column), format_text(str(self.text))]
        function, scores, order = self._choose_function()
        columns = "*" if self.columns is None else ", ".join([*map(quote, self.columns), *scores])
        where = "" if self.where is None else f"\nWHERE ({self.where}\n)"
        call = f"{function}({', '.join([*arguments, f'k => {self.k}'])})"
        # Names and texts are quoted; conditions and queries are the caller's own SQL, with its rights.
        return f"SELECT {columns}\nFROM {call}{where}\nORDER BY {order}"

    def _choose_function(self) -> tuple[str, tuple[str, ...], str]:
        """Return the function, the columns that it adds, and the order of the best."""
        if self.text is None:
            return "lance_vector_search", ("_distance",), "_distance"
        if self.vector_column is None:
            return "lance_fts", ("_score",), "_score DESC"
        return "lance_hybrid_search", ("_hybrid_score", "_distance", "_score"), "_hybrid_score DESC"
