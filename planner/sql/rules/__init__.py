"""Rules that rewrite the tree of a query for DataFusion, in the order in which they are applied.

A rule is a module with one function of its name. Its docstring shows a query before and after, and its
fixtures are titled pairs in `tests/planner/data/rules/`. Rules see the text for DataFusion: names are
private, views are expanded, and the types of columns and parameters are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, Generic, TypeVar

import pyarrow as pa
from cachetools import LRUCache

from planner.sql.rules.cast_keys import cast_keys
from planner.sql.rules.ceilings import ceilings
from planner.sql.rules.computed_lists import computed_lists
from planner.sql.rules.computed_sort_keys import computed_sort_keys
from planner.sql.rules.constant_sides import constant_sides
from planner.sql.rules.contained_lists import contained_lists
from planner.sql.rules.decimal_elements import decimal_elements
from planner.sql.rules.decimal_literals import decimal_literals
from planner.sql.rules.decimals_as_doubles import decimals_as_doubles
from planner.sql.rules.defaults_of_rows import defaults_of_rows
from planner.sql.rules.dialect import find_query, parse_query, write_sql
from planner.sql.rules.disjoint_lists import disjoint_lists
from planner.sql.rules.dotted_fields import dotted_fields
from planner.sql.rules.extremes import extremes
from planner.sql.rules.integer_arithmetic import integer_arithmetic
from planner.sql.rules.late_instants import late_instants
from planner.sql.rules.listed_arrays import listed_arrays
from planner.sql.rules.logarithms import logarithms
from planner.sql.rules.lossy_casts import lossy_casts
from planner.sql.rules.matched_texts import matched_texts
from planner.sql.rules.mixed_bytes import mixed_bytes
from planner.sql.rules.multiplied_intervals import multiplied_intervals
from planner.sql.rules.null_replacements import null_replacements
from planner.sql.rules.number_texts import number_texts
from planner.sql.rules.outer_qualifiers import outer_qualifiers
from planner.sql.rules.padded_texts import padded_texts
from planner.sql.rules.powers import powers
from planner.sql.rules.quantified_comparisons import quantified_comparisons
from planner.sql.rules.read_texts import read_texts
from planner.sql.rules.real_literals import real_literals
from planner.sql.rules.repeated_groups import repeated_groups
from planner.sql.rules.rounded_decimals import rounded_decimals
from planner.sql.rules.scalar_subqueries import scalar_subqueries
from planner.sql.rules.separate_lists import separate_lists
from planner.sql.rules.short_times import short_times
from planner.sql.rules.time_units import time_units
from planner.sql.rules.times_of_day import times_of_day
from planner.sql.rules.tree import Rule, Tree, concerns
from planner.sql.rules.types import Operations
from planner.sql.rules.untyped_values import untyped_values
from planner.sql.rules.uuid_literals import uuid_literals
from planner.sql.rules.wide_decimals import wide_decimals
from planner.sql.rules.windows_of_times import windows_of_times
from planner.sql.rules.zoned_times import zoned_times

RULES: Final[tuple[Rule, ...]] = (
    quantified_comparisons,
    scalar_subqueries,
    outer_qualifiers,
    separate_lists,
    computed_lists,
    powers,
    null_replacements,
    logarithms,
    listed_arrays,
    number_texts,
    decimal_literals,
    decimal_elements,
    decimals_as_doubles,
    real_literals,
    rounded_decimals,
    ceilings,
    padded_texts,
    wide_decimals,
    times_of_day,
    read_texts,
    short_times,
    late_instants,
    time_units,
    zoned_times,
    untyped_values,
    mixed_bytes,
    lossy_casts,
    integer_arithmetic,
    disjoint_lists,
    matched_texts,
    contained_lists,
    repeated_groups,
    windows_of_times,
    defaults_of_rows,
    multiplied_intervals,
    dotted_fields,
    uuid_literals,
    computed_sort_keys,
    extremes,
    cast_keys,
    constant_sides,
)
_KEPT_TEXTS: Final = 1024
_WORDS: Final = re.compile(r"\w+")
_WITHOUT_NAMES: Final = re.compile(
    r"""(?<!\()\*|\*(?!\))|\b(?:natural|table)\b|"\s*(?:\bas\b\s*)?(?:"[^"]*"|\w+)\s*\("""
)
"""Texts that may read columns without their names: by `*`, in joins of equal names, under other names."""
_T = TypeVar("_T")


def apply_rules(
    sql: str,
    schemas: Mapping[str, pa.Schema],
    types: Mapping[str, pa.DataType],
    find_schema: Callable[[str], pa.Schema],
    operations: Operations | None = None,
    nulls: Collection[str] = (),
) -> str:
    """Rewrite a query, or EXPLAIN of one, by the rules.

    Args:
        sql: the text for DataFusion.
        schemas: name of a table in the text -> its columns.
        types: name of a parameter, without "$" -> its type.
        find_schema: plans a query over the same tables and parameters, and returns the schema of its result.
        operations: their types as other texts have told them, by the same settings of DataFusion.
        nulls: names of the parameters that are NULL, without "$".

    Returns:
        The text; the same one if no rule changes it, or if sqlglot does not read it.

    Raises:
        LanceGatewayError: a rule refuses the statement.
    """
    kinds = {str(kind) for kind in (*types.values(), *_list_read_types(sql, schemas))}
    searched = f"{' '.join(sorted(kinds))}{' null parameters' * bool(nulls)} {sql}".lower()
    rules = [rule for rule in RULES if concerns(rule, searched)]
    if not rules:
        return sql
    start = find_query(sql)
    root = parse_query(sql[start:])
    if root is None:
        return sql
    tree = Tree(root, find_schema, schemas, types, {} if operations is None else operations, nulls=nulls)
    try:
        for rule in rules:
            rule(tree)
        return sql[:start] + write_sql(tree.root) if tree.is_changed else sql
    except RecursionError:
        return sql  # as one that is too deep to be read


class KeptTexts(Generic[_T]):
    """Keeps what was made of texts; safe to share between threads.

    What a text becomes depends on the schemas of its tables and on the types of its parameters, and on
    nothing else: both are compared.
    """

    def __init__(self) -> None:
        self._kept: LRUCache[str, tuple[Mapping[str, pa.Schema], Mapping[str, pa.DataType], _T]] = LRUCache(
            _KEPT_TEXTS
        )

    def make(
        self,
        sql: str,
        schemas: Mapping[str, pa.Schema],
        types: Mapping[str, pa.DataType],
        make: Callable[[], _T],
    ) -> _T:
        """Return what was made of a text, or make it."""
        kept = self._kept.get(sql)
        if kept is not None and kept[0] == schemas and kept[1] == types:
            return kept[2]
        made = make()
        self._kept[sql] = schemas, types, made
        return made


def _list_read_types(sql: str, schemas: Mapping[str, pa.Schema]) -> Iterator[pa.DataType]:
    """Yield the types of the columns that a text names, or of all if it may read some without their names."""
    lowered = sql.lower()
    words = _WORDS.findall(lowered)
    reads_all = _WITHOUT_NAMES.search(lowered) or words.count("from") > words.count("select")
    named = set(words)
    for schema in schemas.values():
        for name, kind in zip(schema.names, schema.types, strict=True):
            if reads_all or named.issuperset(_WORDS.findall(name.lower())):
                yield kind
