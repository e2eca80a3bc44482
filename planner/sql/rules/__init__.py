"""Rules that rewrite the tree of a query for DataFusion, in the order in which they are applied.

A rule is a function in a module of its family. Its docstring shows a query before and after, and its
fixtures are titled pairs in `tests/planner/data/rules/`. Rules see the text for DataFusion: names are
private, views are expanded, and the types of columns and parameters are known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import pyarrow as pa
from cachetools import LRUCache
from sqlglot import exp

from lance_gateway.planner.sql.rules.decimals import (
    ceilings,
    decimal_literals,
    decimals_as_doubles,
    remainders,
    rounded_decimals,
    wide_decimals,
)
from lance_gateway.planner.sql.rules.elements import listed_numbers
from lance_gateway.planner.sql.rules.functions import (
    decoded_texts,
    defaults_of_rows,
    dotted_fields,
    formats_of_rows,
    matched_texts,
    padded_texts,
    sets_of_texts,
)
from lance_gateway.planner.sql.rules.joins import constants_of_outer_joins, groups_of_joins, right_joins
from lance_gateway.planner.sql.rules.keys import (
    cast_keys,
    computed_sort_keys,
    constant_sides,
    counted_constants,
    extremes,
    keys_of_totals,
    repeated_groups,
)
from lance_gateway.planner.sql.rules.late_instants import late_instants, late_parts
from lance_gateway.planner.sql.rules.lists import (
    computed_lists,
    contained_lists,
    disjoint_lists,
    lengths_of_lists,
    listed_arrays,
    separate_lists,
)
from lance_gateway.planner.sql.rules.numbers import (
    computed_counts,
    integer_arithmetic,
    logarithms,
    number_texts,
    real_literals,
    signed_zeros,
)
from lance_gateway.planner.sql.rules.subqueries import (
    conditions_above_totals,
    outer_qualifiers,
    quantified_comparisons,
    scalar_subqueries,
)
from lance_gateway.planner.sql.rules.times import (
    added_durations,
    multiplied_intervals,
    read_texts,
    short_times,
    time_units,
    times_of_day,
    windows_of_times,
)
from lance_gateway.planner.sql.rules.values import (
    hex_texts,
    lossy_casts,
    mixed_bytes,
    null_replacements,
    untyped_values,
    uuid_literals,
)
from lance_gateway.planner.sql.rules.zoned_times import zoned_times
from lance_gateway.planner.sql.tree.dialect import find_query, read_query, write_sql
from lance_gateway.planner.sql.tree.queries import sources
from lance_gateway.planner.sql.tree.tree import Rule, Tree
from lance_gateway.planner.sql.tree.types import Operations

RULES: Final[tuple[Rule, ...]] = (
    dotted_fields,
    quantified_comparisons,
    scalar_subqueries,
    outer_qualifiers,
    separate_lists,
    computed_lists,
    null_replacements,
    logarithms,
    lengths_of_lists,
    computed_counts,
    listed_arrays,
    number_texts,
    decimal_literals,
    listed_numbers,
    decimals_as_doubles,
    real_literals,
    rounded_decimals,
    remainders,
    ceilings,
    padded_texts,
    wide_decimals,
    added_durations,
    multiplied_intervals,
    times_of_day,
    read_texts,
    short_times,
    late_instants,
    time_units,
    hex_texts,
    untyped_values,
    zoned_times,
    late_parts,
    mixed_bytes,
    lossy_casts,
    integer_arithmetic,
    signed_zeros,
    disjoint_lists,
    matched_texts,
    formats_of_rows,
    decoded_texts,
    sets_of_texts,
    contained_lists,
    right_joins,
    repeated_groups,
    groups_of_joins,
    constants_of_outer_joins,
    keys_of_totals,
    counted_constants,
    windows_of_times,
    defaults_of_rows,
    uuid_literals,
    computed_sort_keys,
    extremes,
    conditions_above_totals,
    cast_keys,
    constant_sides,
)
_KEPT_CHARACTERS: Final = 4 << 20
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A text that rules have rewritten.

    Attributes:
        text: for DataFusion; the same one if no rule changes it, or if sqlglot does not read it.
        keeps_names: whether its outputs certainly have the names of those of the text as it was written.
    """

    text: str
    keeps_names: bool


def apply_rules(
    sql: str,
    schemas: Mapping[str, pa.Schema],
    types: Mapping[str, pa.DataType],
    find_schema: Callable[[str], pa.Schema],
    operations: Operations | None = None,
    nulls: Collection[str] = (),
    *,
    read: Callable[[str], exp.Query | None] = read_query,
) -> Rewritten:
    """Rewrite a query, or EXPLAIN of one, by the rules.

    Args:
        sql: the text for DataFusion.
        schemas: name of a table in the text -> its columns.
        types: name of a parameter, without "$" -> its type.
        find_schema: plans a query over the same tables and parameters, and returns the schema of its result.
        operations: types of operations that are known from other texts, with the same settings of DataFusion.
        nulls: names of the parameters that are NULL, without "$".
        read: returns a tree of the query in the text, which is changed; None if sqlglot does not read it.

    Raises:
        LanceGatewayError: a rule refuses the statement.
    """
    unchanged = Rewritten(sql, keeps_names=True)
    root = read(sql)
    if root is None:
        return unchanged
    tree = Tree(root, find_schema, schemas, types, {} if operations is None else operations, nulls=nulls)
    try:
        named = _list_named(root)
        for rule in RULES:
            rule(tree)
        if not tree.is_changed:
            return unchanged
        keeps_names = named is not None and named == _list_named(tree.root)
        return Rewritten(sql[: find_query(sql)] + write_sql(tree.root), keeps_names)
    except RecursionError:
        return unchanged  # as one that is too deep to be read


def _list_named(query: exp.Query) -> Sequence[exp.Expr | str] | None:
    """Return what the names of outputs follow from; None if they follow from those of other queries."""
    select: exp.Expr = query
    while isinstance(select, exp.SetOperation | exp.Subquery):
        select = select.this
    if not isinstance(select, exp.Select) or any(item.is_star for item in select.expressions):
        return None
    computed = [item for item in select.expressions if not isinstance(item, exp.Alias | exp.Column)]
    return [*(item.copy() for item in computed), *(one.alias_or_name for one in sources(select))]


class KeptTexts(Generic[_T]):
    """Keeps what was made of texts; safe to share between threads.

    What a text becomes depends on the schemas of its tables and on the types of its parameters, and on
    nothing else: both are compared.
    """

    def __init__(self) -> None:
        self._kept: LRUCache[str, tuple[Mapping[str, pa.Schema], Mapping[str, pa.DataType], _T, int]] = (
            LRUCache(_KEPT_CHARACTERS, getsizeof=lambda kept: kept[3])
        )
        self._lock = threading.Lock()

    def make(
        self,
        sql: str,
        schemas: Mapping[str, pa.Schema],
        types: Mapping[str, pa.DataType],
        make: Callable[[], _T],
    ) -> _T:
        """Return what was made of a text, or make it."""
        with self._lock:
            kept = self._kept.get(sql)
        if kept is not None and kept[0] == schemas and kept[1] == types:
            return kept[2]
        made = make()
        # What is made is about as long as the text.
        size = 256 + 2 * len(sql)
        if size <= _KEPT_CHARACTERS:
            with self._lock:
                self._kept[sql] = schemas, types, made, size
        return made
