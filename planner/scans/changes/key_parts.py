"""Parts of the changes of a table by their keys, which several readers read beside one another.

All changes of a key are in one part, whatever its rows were and are, and whichever state they are of. So each
part is compared by itself, and the order of a key stays within it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_gateway.execnodes import ExecNode, TaskContext
from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.memwal.transforms.buckets import hash_as_lance, hash_as_published

_FACTOR = np.uint32(31)


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One of several parts of all keys.

    Attributes:
        number: which one, from 1.
        count: how many there are.
    """

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise InvalidInputError(
                f"there is no part {self.number} of {self.count}: part is a number from 1 to parts"
            )

    def find(self, keys: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
        """Return which rows are in the part.

        Args:
            keys: the columns of the key, one array each.
        """
        hashes = np.zeros(len(keys[0]), np.uint32)
        for column in keys:
            hashes = hashes * _FACTOR + _hash(column)
        found: npt.NDArray[np.bool_] = hashes % np.uint32(self.count) == self.number - 1
        return found


def _hash(column: pa.Array) -> npt.NDArray[np.uint32]:
    """Return a hash of each value; equal values of a type have equal ones."""
    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    for hash_column in (hash_as_lance, hash_as_published):
        try:
            return hash_column(column)
        except UnsupportedError:
            continue
    return hash_as_lance(column.cast(pa.string()))


@dataclass(frozen=True, eq=False)
class KeyPartExec(ExecNode):
    """Leaves out the rows of other parts.

    Attributes:
        child: gives the rows, with their key.
        key: columns of the key.
        part: that is wanted.
    """

    child: ExecNode
    key: tuple[str, ...]
    part: KeyPart

    @property
    def schema(self) -> pa.Schema:
        """That of the rows."""
        return self.child.schema

    def children(self) -> tuple[ExecNode, ...]:
        """Return the one input."""
        return (self.child,)

    def describe(self) -> str:
        """Return the name of the node, with its part."""
        return f"KeyPartExec: part={self.part.number} of {self.part.count}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce the rows of the part."""
        for batch in self.child.execute(partition, context):
            yield batch.filter(pa.array(self.part.find([batch.column(name) for name in self.key])))
