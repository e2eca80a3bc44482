"""What a search is drawn from and judged by: a table's rows, and the indexes that it has."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.oracle.answers.answers import Oracle
from tests.oracle.answers.predicates import Draw, predicate
from tests.oracle.answers.ranked import Key
from tests.oracle.replay.model import Column


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """An index on the vectors; with every partition probed and enough refined, some types are exact."""

    type: str
    metric: str

    @property
    def exact(self) -> bool:
        return self.type in {"IVF_FLAT", "IVF_PQ"}


@dataclass(frozen=True, eq=False)
class Searched:
    """A table as whoever asks must see it.

    Attributes:
        rows: under the present names of the columns.
        vector: name of the column with vectors.
        text: names of the columns with a text index.
        tokenizer: the options of that index.
    """

    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: pa.Table
    vector: str
    text: tuple[str, ...]
    tokenizer: Mapping[str, Any] = field(default_factory=dict)
    index: VectorIndex | None = None

    def keys_of(self, table: pa.Table) -> list[Key]:
        return list(zip(*(table[name].to_pylist() for name in self.key), strict=True))

    def condition(self, draw: Draw) -> str | None:
        """A drawn condition on the rows; None for none."""
        plain = [column for column in self.columns if column.name != self.vector]
        return predicate(draw, plain, depth=1) if draw(st.booleans()) else None

    def satisfying(self, condition: str | None) -> set[Key]:
        """Keys of the rows that satisfy a condition."""
        if condition is None:
            return set(self.keys_of(self.rows))
        rows = self.rows.drop_columns([self.vector])
        return set(
            self.keys_of(Oracle({self.name: rows}).answer(f"SELECT * FROM {self.name} WHERE {condition}"))
        )

    @property
    def selected_key(self) -> str:
        return ", ".join(self.key)


@dataclass(frozen=True, slots=True)
class Question:
    """A statement, and who judges its answer (which gets the words for a failure)."""

    sql: str
    judge: Callable[[pa.Table, str], None]
    parameters: tuple[pa.Scalar, ...] = ()
