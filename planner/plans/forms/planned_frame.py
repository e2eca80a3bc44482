"""Plans with names of columns that clients see, which may be the same.

    SELECT id, id, count(*), count(*) FROM t GROUP BY id ORDER BY id
->  SELECT id, id AS "id#2", count(*) AS "?#1", count(*) AS "?#2" FROM t GROUP BY id ORDER BY id

DataFusion refuses such outputs, so they get names of their own, and those to show are remembered. The first
output keeps its name, in subqueries as well, as in DuckDB and in DataFusion's own tables of joins. Only
statements that DataFusion has refused are written so: it takes joins whose columns share names.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from cachetools import LRUCache
from datafusion import DataFrame, SessionContext
from datafusion.plan import LogicalPlan
from sqlglot import exp

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.binding.bound_statement import StatementKind, TableReference
from lance_gateway.planner.bridge.plan_shape import DirectShape, find_direct_shape
from lance_gateway.planner.plans.contexts import ContextOptions
from lance_gateway.planner.plans.forms.multisets import FindSchema
from lance_gateway.planner.scans.pruning.statement_predicates import NO_PREDICATES, StatementPredicates
from lance_gateway.planner.scans.query_run import QueryRun
from lance_gateway.planner.scans.table_leaf import TableLeaf
from lance_gateway.planner.sql.tree.dialect import find_query, parse_query, write_sql
from lance_gateway.planner.sql.tree.tree import Tree, read_name


@dataclass(frozen=True, slots=True)
class UniqueNames:
    """A statement whose outputs have different names.

    Attributes:
        sql: the statement.
        named: name of an output -> the name that clients see.
        computed: name of an output -> its expression, whose name clients see.
        tree: of the statement.
    """

    sql: str
    named: Mapping[str, str]
    computed: Mapping[str, exp.Expr]
    tree: Tree

    def find_shown(self, names: Collection[str]) -> Mapping[str, str]:
        """Return name of an output -> the name that clients see, for some names.

        Those of expressions are planned.
        """
        shown = {name: self.named[name] for name in names if name in self.named}
        for name in names:
            if name in self.computed:
                expression = self.computed[name]
                fields = self.tree.find_fields(expression)
                shown[name] = fields[0].name if fields else write_sql(expression)
        return shown


def make_names_unique(sql: str, find_schema: FindSchema) -> UniqueNames | None:
    """Return a statement whose outputs have different names; None if there are none to change.

    Args:
        sql: for DataFusion.
        find_schema: of a query that is a part of it, and whose outputs have different names.

    Raises:
        InvalidInputError: rows are sorted by a name that different outputs have.
    """
    start = find_query(sql)
    root = parse_query(sql[start:])
    if root is None:
        return None
    tree = Tree(root, find_schema)
    naming = _Naming(tree)
    for select in _list_selects(root):
        if len(select.expressions) > 1:
            naming.rename(select)
    if not tree.is_changed:
        return None
    return UniqueNames(sql[:start] + write_sql(root), naming.named, naming.computed, tree)


def _list_selects(root: exp.Expr) -> Sequence[exp.Select]:
    """Return the SELECTs of a query, each behind those that it reads."""
    found: list[exp.Select] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Select):
            found.append(node)
        stack += sorted(node.iter_expressions(), key=lambda child: not isinstance(child, exp.With))
    return found[::-1]


class _Naming:
    """Names outputs.

    Attributes:
        named: see `UniqueNames`.
        computed: see `UniqueNames`.
    """

    def __init__(self, tree: Tree) -> None:
        self.named: dict[str, str] = {}
        self.computed: dict[str, exp.Expr] = {}
        self._tree = tree

    def rename(self, select: exp.Select) -> None:
        """Name the outputs of a SELECT."""
        taken: dict[str, exp.Expr] = {}
        outputs: list[exp.Expr] = []
        for number, output in enumerate(select.expressions, start=1):
            if output.is_star:
                outputs += self._rename_star(output, number, taken)
                continue
            expression = output.unalias()
            name = _find_name(output)
            if name is not None and name not in taken:
                taken[name] = output
                outputs.append(output)
                continue
            if name is not None:
                _check_order(name, taken[name], output)
                unique = self._name(name, number, taken)
            else:
                unique = f"?#{len(self.named) + len(self.computed) + 1}"
                if isinstance(expression, exp.Cast) and isinstance(expression.this, exp.Column):
                    self.named[unique] = read_name(expression.this.this)  # as in PostgreSQL
                else:
                    self.computed[unique] = expression
            outputs.append(exp.Alias(this=expression, alias=exp.to_identifier(unique, quoted=True)))
            self._tree.is_changed = True
        select.set("expressions", outputs)

    def _rename_star(self, star: exp.Expr, number: int, taken: dict[str, exp.Expr]) -> Sequence[exp.Expr]:
        names = [field.name for field in self._tree.find_fields(star)]
        relation = star.args.get("table") if isinstance(star, exp.Column) else None
        options = star.this if isinstance(star, exp.Column) else star
        columns: list[exp.Expr] = []
        for name in names:
            column = exp.Column(this=exp.to_identifier(name, quoted=True), table=relation and relation.copy())
            if name not in taken:
                columns.append(column)
                continue
            _check_order(name, taken[name], star)
            columns.append(exp.alias_(column, self._name(name, number, taken), quoted=True))
        is_plain = len(set(names)) == len(names) and not any(map(options.args.get, ("replace", "rename")))
        is_shared = not taken.keys().isdisjoint(names)
        for name in names:
            taken.setdefault(name, star)
        if not is_plain or not is_shared:
            return [star]
        self._tree.is_changed = True
        return columns

    def _name(self, name: str, number: int, taken: Mapping[str, exp.Expr]) -> str:
        while f"{name}#{number}" in taken:
            number += 1
        unique = f"{name}#{number}"
        self.named[unique] = name
        return unique


def _find_name(output: exp.Expr) -> str | None:
    """Return the name of an output, as its text gives it; None for a computed one without an alias."""
    if isinstance(output, exp.Alias):
        return read_name(output.args["alias"])
    return read_name(output.this) if isinstance(output, exp.Column) else None


def _check_order(name: str, first: exp.Expr, other: exp.Expr) -> None:
    """Refuse to sort by a name that different outputs have."""
    query: exp.Expr | None = other.parent_select
    while query is not None and isinstance(query.parent, exp.SetOperation):
        query = query.parent
    order = query.args.get("order") if query is not None else None
    if order is None or _mean_the_same(first, other):
        return
    for key in order.expressions:
        if isinstance(key.this, exp.Column) and not key.this.table and read_name(key.this.this) == name:
            message = f"ORDER BY {name!r} is ambiguous, since several outputs have that name"
            raise InvalidInputError(f"{message}: give them different names")


def _mean_the_same(*outputs: exp.Expr) -> bool:
    """Return whether two outputs are certainly the same column."""
    if any(output.is_star for output in outputs):
        others = (output for output in outputs if not output.is_star)
        return all(isinstance(output, exp.Column) and not output.table for output in others)
    one, other = (output.unalias() for output in outputs)
    are_columns = isinstance(one, exp.Column) and isinstance(other, exp.Column)
    return one == other or (are_columns and read_name(one.this) == read_name(other.this))


MAX_IDLE_PLANS: Final = 1024
"""The number of statements whose plans are kept."""
MAX_PLAN_SECONDS: Final = 1.0
"""Plans with `now()` are not used later, since it is a constant in them."""
_SHARED_NAME: Final = re.compile(r"unique expression names|duplicate|ambiguous|field name")


class PlannedFrame(DataFrame):
    """A planned statement, which is optimised once.

    Attributes:
        mixing: rules of the optimizer that would mix joins up, and are left out; None if not looked for.
        is_checked: whether the same plan was found before to be answered rightly.
        text: what was planned, with unique names of outputs.
        shown: name of a column -> the name that clients see, of columns that share theirs.
        leaves: the table references with their leaves, if the plan can be reused; () for other plans.
        predicates: of the statement, for its runs.
        options: of the contexts in which the plan may run once it is optimised; None if it must be optimised
            as it runs.
        context: the one in which it runs.
    """

    mixing: tuple[str, ...] | None = None
    is_checked: bool = False
    _optimized: LogicalPlan | None = None
    text: str = ""
    shown: Mapping[str, str] = MappingProxyType({})
    leaves: Sequence[tuple[TableReference, TableLeaf]] = ()
    predicates: StatementPredicates = NO_PREDICATES
    options: ContextOptions | None = None
    context: SessionContext | None = None

    @cached_property
    def direct_shape(self) -> DirectShape | None:
        """The shape of a plan that is only one scan, or its row count; None for others."""
        return find_direct_shape(self.optimized_logical_plan())

    @property
    def is_optimized(self) -> bool:
        """Return whether the optimised plan is known."""
        return self._optimized is not None

    def run_in(self, context: SessionContext) -> None:
        """Run the optimised plan, as it is, in a context that does not optimise."""
        self.df = context.create_dataframe_from_logical_plan(self.optimized_logical_plan()).df
        self.context = context

    def release(self) -> SessionContext | None:
        """Let go of what was read, and of the context of the run, which is returned."""
        for _, leaf in self.leaves:
            leaf.release()
        context, self.context, self.df = self.context, None, None
        return context

    def optimized_logical_plan(self) -> LogicalPlan:
        """Return the optimised plan."""
        if self._optimized is None:
            self._optimized = super().optimized_logical_plan()
        return self._optimized

    def show_names(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the result with the names that clients see."""
        if not self.shown:
            return schema
        return pa.schema([field.with_name(self.shown.get(field.name, field.name)) for field in schema])


class IdlePlans:
    """Plans kept for the next execution of their statements, the least recently used of which leave.

    Safe to share between threads. A plan takes about 10 kB.
    """

    def __init__(self) -> None:
        self._idle: LRUCache[object, tuple[PlannedFrame, QueryRun | None, float]] = LRUCache(MAX_IDLE_PLANS)
        self._lock = threading.Lock()

    def put(self, statement: object, frame: PlannedFrame, run: QueryRun | None) -> None:
        """Keep a plan for the next execution; `run` is the only one that may use it, None if any may."""
        with self._lock:
            self._idle[statement] = frame, run, time.monotonic()

    def take(self, statement: object) -> tuple[PlannedFrame, QueryRun | None] | None:
        """Remove and return the plan of a statement, with the run that it is for; None if there is none."""
        with self._lock:
            frame, run, at = self._idle.pop(statement, (None, None, 0.0))
        if frame is None or (run is not None and time.monotonic() - at > MAX_PLAN_SECONDS):
            return None
        return frame, run


def number_names(schema: pa.Schema) -> pa.Schema:
    """Return a schema whose columns have different names, as DataFusion gives them to those of joins."""
    counts: Counter[str] = Counter()
    fields = []
    for field in schema:
        fields.append(field.with_name(f"{field.name}:{counts[field.name]}") if counts[field.name] else field)
        counts[field.name] += 1
    return pa.schema(fields)


def plan_unique(
    kind: StatementKind,
    replan: Callable[[str, str], DataFrame],
    text: str,
    written: str,
) -> PlannedFrame:
    """Plan a statement, and if it is refused, with unique names of its outputs."""
    try:
        planned = replan(text, written)
        frame = planned if isinstance(planned, PlannedFrame) else PlannedFrame(planned.df)
    except Exception as error:
        # The rows of DESCRIBE would have the unique names.
        if kind is StatementKind.DESCRIBE or not _SHARED_NAME.search(str(error)):
            raise

        def find_schema(part: str) -> pa.Schema:
            return replan(part, part).schema()

        unique = make_names_unique(text, find_schema)
        unique_written = unique if text == written else make_names_unique(written, find_schema)
        if unique is None or unique_written is None:
            raise
        renamed = None
        # The first error speaks of the text as it was written.
        with contextlib.suppress(Exception):
            renamed = PlannedFrame(replan(unique.sql, unique_written.sql).df)
        if renamed is None:
            raise
        renamed.text, renamed.shown = unique.sql, unique_written.find_shown(renamed.schema().names)
        return renamed
    frame.text = text
    return frame
