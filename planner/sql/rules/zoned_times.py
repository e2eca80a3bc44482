"""A time without a zone is one of UTC, the zone of all sessions, beside a time with a zone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import Cast, Group, Kinds, Use, cast_to, find_groups, unify_types
from planner.sql.rules.tree import Family, Tree, find_family, for_texts

_UTC: Final = frozenset({"UTC", "+00:00", "-00:00", "Z", "Etc/UTC"})
_UNZONED: Final[frozenset[Family]] = frozenset({"instant", "date", "text"})


@for_texts(r"tz=(?!utc\]|\+00:00\]|etc/utc\])|\btime\s+zone\b|\bsome\(")
def zoned_times(tree: Tree) -> None:
    """Give a time, a date or a text the zone of a column beside it, as the same instant in UTC.

    DataFusion takes it as a local time of the zone of the column.

        SELECT id FROM t WHERE at = '2024-07-01 12:00:00'
    ->  SELECT id FROM t WHERE at = arrow_cast(arrow_cast('2024-07-01 12:00:00',
            'Timestamp(Microsecond, Some("+00:00"))'), 'Timestamp(Microsecond, Some("America/New_York"))')
    """
    unify_types(tree, ("zoned",), _choose)
    for group in find_groups(tree):
        if group.use is Use.COMPUTED and tree.may_mix(group.members, "zoned"):
            kinds = [tree.find_type(member) for member in group.members]
            families = {find_family(kind) for kind in kinds if kind is not None}
            # Those of two times are right.
            if families == {"zoned", "other"} and _find_zoned(kinds) is not None:
                _compute_in_utc(tree, group, kinds)


def _choose(kinds: Kinds) -> Sequence[Cast | None]:
    zoned = _find_zoned(kinds)
    return [
        partial(_give_zone, kind=kind, zoned=zoned)
        if zoned is not None and kind is not None and find_family(kind) in _UNZONED
        else None
        for kind in kinds
    ]


def _compute_in_utc(tree: Tree, group: Group, kinds: Kinds) -> None:
    """Add an interval in UTC: a day has 24 hours there, and there are no hours that are skipped."""
    for member, kind in zip(group.members, kinds, strict=True):
        if kind is not None and find_family(kind) == "zoned":
            tree.replace(member, cast_to(member.copy(), pa.timestamp(kind.unit, "+00:00")))
            tree.replace(group.node, cast_to(group.node.copy(), kind))
            return


def _find_zoned(kinds: Kinds) -> pa.TimestampType | None:
    """Return the first type with a zone, if it is another one than UTC."""
    zoned = [kind for kind in kinds if kind is not None and find_family(kind) == "zoned"]
    return next((kind for kind in zoned if kind.tz not in _UTC), None)


def _give_zone(expression: exp.Expr, kind: pa.DataType, zoned: pa.TimestampType) -> exp.Expr:
    unit = kind.unit if pa.types.is_timestamp(kind) else zoned.unit
    return cast_to(cast_to(expression, pa.timestamp(unit, "+00:00")), pa.timestamp(unit, zoned.tz))
