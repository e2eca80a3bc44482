"""Inputs one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from execnodes.node import ExecNode, TaskContext


@dataclass(frozen=True, eq=False)
class UnionExec(ExecNode):
    """All rows of all inputs; nothing is compared.

    Args:
        inputs: nodes of one schema, at least one.
    """

    inputs: tuple[ExecNode, ...]

    def __post_init__(self) -> None:
        if not self.inputs:
            msg = "UnionExec needs at least one input"
            raise ValueError(msg)
        names = self.inputs[0].schema.names
        for node in self.inputs[1:]:
            if node.schema.names != names:
                msg = f"UnionExec inputs differ: {names} and {node.schema.names} ({node.describe()})"
                raise ValueError(msg)

    @property
    def schema(self) -> pa.Schema:
        """The inputs' common schema."""
        return self.inputs[0].schema

    def children(self) -> tuple[ExecNode, ...]:
        """The inputs."""
        return self.inputs

    def describe(self) -> str:
        """How many inputs."""
        return f"UnionExec: inputs={len(self.inputs)}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Drain one input after another."""
        for node in self.inputs:
            yield from node.execute(partition, context)
