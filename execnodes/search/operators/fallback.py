"""Few rows where they are enough, everything otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from execnodes.node import ExecNode, TaskContext
from memwal.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class FallbackExec(ExecNode):
    """The rows of its first input if these are enough, else all rows of the second one; in one partition.

    Args:
        few: gives the rows that are wanted, unless there are too few of their kind.
        all: gives these, and others.
        enough: rows.
        partitions: of `all`.
    """

    few: ExecNode
    all: ExecNode
    enough: int
    partitions: int

    def __post_init__(self) -> None:
        if not self.few.schema.equals(self.all.schema):
            msg = f"{self.few.schema} and {self.all.schema} differ: one must stand for the other"
            raise InvalidInputError(msg)

    @property
    def schema(self) -> pa.Schema:
        """Of both inputs."""
        return self.few.schema

    def children(self) -> tuple[ExecNode, ...]:
        """The inputs."""
        return (self.few, self.all)

    def describe(self) -> str:
        """How many rows are enough."""
        return f"FallbackExec: all rows unless there are {self.enough}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """See `ExecNode.batches`."""
        if partition:
            return
        found = list(self.few.execute(0, context))
        if sum(batch.num_rows for batch in found) >= self.enough:
            yield from found
            return
        for number in range(self.partitions):
            yield from self.all.execute(number, context)
