"""Binds Substrait plans: names of tables are resolved like those in a statement.

    read {namedTable: orders, baseSchema: [id, note], projection: [1]}
->  project {input: read {namedTable: "orders#1", baseSchema: [id, note]}, emit: [1]}
    over  "orders#1" = SELECT id, note FROM orders

Each table that a plan reads becomes the plan of a separate statement, so the plan sees the tables, views,
rows and columns that its principal sees, and all of its reads belong to one run, with one snapshot per table.
The table may have columns that the plan does not name. The projection moves out of the read, since DataFusion
supports it there only for tables; the optimizer moves it back.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Literal, TypeAlias

import pyarrow as pa
from datafusion import DataFrame, SessionContext
from datafusion.substrait import Consumer, Plan, Serde

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError, is_panic
from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA
from lance_gateway.planner.binding.bind import bind
from lance_gateway.planner.binding.bound_statement import BoundStatement, StatementKind
from lance_gateway.planner.binding.names import NameResolver
from lance_gateway.planner.binding.substrait_rules import apply_rules, find_functions, find_relations
from lance_gateway.planner.sql.text.tokens import fold, quote

_WRAPPERS = re.compile(r"^(?:DataFusion error: |Error during planning: |Substrait error: )+")
_NOT_IMPLEMENTED = "This feature is not implemented:"
_PRIVATE_NAME = re.compile(r"(\w+)#\d+")
_NOT_PLAIN = re.compile("[^a-z0-9_]")


@dataclass(frozen=True, slots=True)
class BoundPlan:
    """A Substrait plan whose tables have private names, with the interface of a bound statement.

    Attributes:
        sql: name of the plan in logs, errors and lists of statements.
        relations: private name -> the statement that reads the table.
    """

    sql: str
    relations: Mapping[str, BoundStatement]
    _plan: str
    """JSON."""

    kind: ClassVar[StatementKind] = StatementKind.QUERY
    references: ClassVar[tuple[()]] = ()
    parameter_count: ClassVar[int] = 0
    key_query: ClassVar[None] = None
    system_tables: ClassVar[frozenset[str]] = frozenset()
    is_constant: ClassVar[bool] = False

    @property
    def lists_tables(self) -> bool:
        """Return whether the rows of the plan depend on which tables and views there are."""
        return any(statement.lists_tables for statement in self.relations.values())

    @property
    def reads_lists(self) -> bool:
        """Return whether the plan reads DataFusion's own lists of tables."""
        return any(statement.reads_lists for statement in self.relations.values())

    @property
    def compares_null(self) -> bool:
        """Return whether the plan itself compares in a way that NULL equals NULL."""
        return "distinct_from" in self._plan

    @property
    def has_full_joins(self) -> bool:
        """Return whether the plan has joins with all rows of both sides."""
        return "JOIN_TYPE_OUTER" in self._plan

    def without_text(self) -> BoundPlan:
        """Return the plan as processes need it that do not plan it."""
        relations = {name: statement.without_text() for name, statement in self.relations.items()}
        return replace(self, relations=relations, _plan="")

    def make_frame(self, context: SessionContext, relations: Mapping[str, DataFrame]) -> DataFrame:
        """Plan it with DataFusion.

        Args:
            context: to plan in.
            relations: private name -> the plan of its statement.

        Raises:
            InvalidInputError: the plan is not valid, or does not fit the tables that it reads.
            UnsupportedError: it uses a feature that DataFusion does not support.
        """
        for name, relation in relations.items():
            context.register_view(quote(name), relation)
        document = json.loads(self._plan)

        def find_schema(relation: dict[str, Any]) -> pa.Schema | None:
            try:
                return _read(context, {**document, "relations": [{"rel": relation}]}).schema()
            except Exception:  # noqa: BLE001 - what is wrong with it is told where the plan is read
                return None

        try:
            apply_rules(document, find_schema)
        except UnsupportedError as error:
            raise UnsupportedError(f"{self.sql}: {error}") from error
        except (KeyError, IndexError, ValueError) as error:
            raise self._plan_error("it is not well-formed") from error
        try:
            frame = _read(context, document)
            # DataFusion checks a plan only when it optimizes it.
            frame.optimized_logical_plan()
            frame.schema()
        except Exception as error:
            raise self._plan_error(str(error)) from error
        except BaseException as error:
            # DataFusion's Substrait consumer panics on some plans that are not valid.
            if not is_panic(error):
                raise
            raise self._plan_error("it is not well-formed") from error
        return frame

    def _plan_error(self, reason: str) -> InvalidInputError | UnsupportedError:
        text = _WRAPPERS.sub("", _PRIVATE_NAME.sub(r"\1", reason))
        if text.startswith(_NOT_IMPLEMENTED):
            return UnsupportedError(f"{self.sql}: {text.removeprefix(_NOT_IMPLEMENTED).strip()}")
        return InvalidInputError(f"{self.sql}: {text}")

    def syntax_error(
        self,
        summary: str,
        place: tuple[int, int] | Literal["end"] | None = None,  # noqa: ARG002 - a plan has none
    ) -> InvalidInputError:
        """Return an error with DataFusion's message about the plan."""
        return InvalidInputError(f"{self.sql}: {summary}")


def _read(context: SessionContext, document: Mapping[str, Any]) -> DataFrame:
    plan = Consumer.from_substrait_plan(context, Plan.from_json(json.dumps(document)))
    return context.create_dataframe_from_logical_plan(plan)


def bind_plan(plan: bytes, resolver: NameResolver, schema: str = MAIN_SCHEMA) -> BoundPlan:
    """Resolve the names of the tables that a plan reads.

    Args:
        plan: a serialized substrait.Plan.
        resolver: resolves the names.
        schema: of names without one.

    Raises:
        InvalidInputError: the bytes are no plan.
        NotFoundError: a table does not exist.
        UnsupportedError: the plan reads relations other than tables.
    """
    name = f"Substrait plan {hashlib.blake2b(plan, digest_size=8).hexdigest()}"
    try:
        document = json.loads(Serde.deserialize_bytes(plan).to_json())
    except Exception as error:
        raise InvalidInputError(
            f"{name} cannot be read: {len(plan)} bytes that are no serialized substrait.Plan"
        ) from error
    _check_memberships(document, name, find_functions(document, {"and", "or"}), is_plain=False)
    relations: dict[str, BoundStatement] = {}
    for read in find_relations(document, "read"):
        if "virtualTable" in read["read"]:
            # Its rows are in the plan.
            continue
        parts = _read_table_name(read["read"], name)
        table = ".".join(quote(part) for part in parts)
        private = f"{_NOT_PLAIN.sub('_', fold(parts[-1]))}#{len(relations) + 1}"
        columns = ", ".join(map(quote, _read_columns(read["read"], name))) or "*"
        relations[private] = bind(f"SELECT {columns} FROM {table}", resolver, schema=schema)  # noqa: S608 - quoted just above
        read["read"]["namedTable"]["names"] = [private]
        _move_projection(read, name)
    return BoundPlan(name, relations, json.dumps(document))


@cache
def substrait_version() -> str:
    """Return the Substrait release whose plans DataFusion writes and reads."""
    plan = json.loads(Serde.serialize_to_plan("SELECT 1", SessionContext()).to_json())
    version = plan["version"]
    return ".".join(str(version.get(part, 0)) for part in ("majorNumber", "minorNumber", "patchNumber"))


def _check_memberships(node: Any, plan: str, connectives: frozenset[int], *, is_plain: bool) -> None:  # noqa: ANN401
    """Refuse memberships that are NULL where DataFusion 55 would give false, unless both mean the same.

    Args:
        node: of the plan.
        plan: its name.
        connectives: function anchors of AND and OR.
        is_plain: whether the node is a condition where NULL counts as false.
    """
    if isinstance(node, list):
        for child in node:
            _check_memberships(child, plan, connectives, is_plain=is_plain)
    elif isinstance(node, dict):
        if "inPredicate" in node.get("subquery", {}) and not is_plain:
            msg = (
                f"{plan} has a membership (in_predicate) under something else than AND and OR in a filter: "
                "join what it is about, with JOIN_TYPE_LEFT_ANTI for NOT EXISTS, say, or send SQL"
            )
            raise UnsupportedError(msg)
        function = node.get("scalarFunction")
        stays = is_plain and function is not None and function.get("functionReference", 0) in connectives
        for key, child in node.items():
            inherits = stays or (is_plain and key in {"arguments", "value"}) or key == "condition"
            _check_memberships(child, plan, connectives, is_plain=inherits)


def _read_table_name(read: Mapping[str, Any], plan: str) -> tuple[str, ...]:
    """Return the parts of the name of a table."""
    names = read.get("namedTable", {}).get("names", ())
    if not names:
        kinds = sorted(kind for kind in read if kind.endswith(("Table", "Files")))
        raise UnsupportedError(
            f"{plan} reads {' and '.join(kinds) or 'something without a name'}: only named tables can be read"
        )
    return tuple(names)


def _read_columns(read: Mapping[str, Any], plan: str) -> list[str]:
    """Return the columns in the base schema of a read, without the names of their inner fields."""
    schema = read.get("baseSchema", {})
    names = iter(schema.get("names", ()))
    try:
        columns = []
        for kind in schema.get("struct", {}).get("types", ()):
            columns.append(next(names))
            _skip_inner_names(kind, names)
    except StopIteration:
        raise InvalidInputError(f"{plan} has columns without names in the schema of a table") from None
    return columns


def _skip_inner_names(kind: Mapping[str, Any], names: Iterator[str]) -> None:
    """Skip the names of the fields inside a type."""
    for inner in kind.get("struct", {}).get("types", ()):
        next(names)
        _skip_inner_names(inner, names)
    for container in ("list", "map"):
        for part in ("type", "key", "value"):
            if part in kind.get(container, {}):
                _skip_inner_names(kind[container][part], names)


def _move_projection(relation: dict[str, Any], plan: str) -> None:
    """Move the projection of a read into a relation above it."""
    projection = relation["read"].pop("projection", None)
    if projection is None:
        return
    items = projection.get("select", {}).get("structItems", ())
    if any("child" in item for item in items):
        raise UnsupportedError(f"{plan} reads a part of a column: read the column, and take the part from it")
    read = relation.pop("read")
    emit = {"outputMapping": [item.get("field", 0) for item in items]}
    relation["project"] = {"common": {"emit": emit}, "input": {"read": read}}


Bound: TypeAlias = BoundStatement | BoundPlan
"""What can be planned."""
