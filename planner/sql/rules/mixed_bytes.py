"""Bytes of several types beside each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import pyarrow as pa

from planner.sql.rules.groups import Cast, Kinds, cast_to, unify_types
from planner.sql.rules.tree import Tree, find_family, for_texts


@for_texts(r"large_binary|fixed_size_binary|largebinary|fixedsizebinary")
def mixed_bytes(tree: Tree) -> None:
    """Cast bytes of several types to one.

    DataFusion has no common type for large bytes, those of a fixed size, and `X'00'` in `coalesce`.

        SELECT coalesce(large, X'00') FROM t
    ->  SELECT coalesce(large, arrow_cast(X'00', 'LargeBinary')) FROM t
    """
    unify_types(tree, ("bytes", "bytes"), _choose)


def find_common_bytes(kinds: Collection[pa.DataType]) -> pa.DataType:
    """Return the type of bytes to which several of them are brought."""
    return pa.large_binary() if pa.large_binary() in kinds else pa.binary()


def _choose(kinds: Kinds) -> Sequence[Cast | None]:
    found = {kind for kind in kinds if kind is not None and find_family(kind) == "bytes"}
    target = find_common_bytes(found)
    cast = partial(cast_to, kind=target)
    return [cast if len(found) > 1 and kind in found and kind != target else None for kind in kinds]
