"""The adapter: what macros and dbt itself ask of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from dbt.adapters.__about__ import version as base_version
from dbt.adapters.base import available
from dbt.adapters.base.impl import ConstraintSupport
from dbt.adapters.base.relation import AdapterTrackingRelationInfo, BaseRelation
from dbt.adapters.capability import Capability, CapabilityDict, CapabilitySupport, Support
from dbt.adapters.contracts.relation import RelationConfig
from dbt.adapters.lance_gateway.__version__ import version
from dbt.adapters.lance_gateway.columns import LanceGatewayColumn
from dbt.adapters.lance_gateway.connections import LanceGatewayConnectionManager
from dbt.adapters.lance_gateway.relations import LanceGatewayRelation
from dbt.adapters.protocol import AdapterConfig
from dbt.adapters.sql import SQLAdapter
from dbt_common.contracts.constraints import ColumnLevelConstraint, ConstraintType, ModelLevelConstraint
from dbt_common.exceptions import DbtRuntimeError

_NOT_ENFORCED: Final = frozenset({ConstraintType.unique, ConstraintType.foreign_key})


@dataclass
class LanceGatewayConfig(AdapterConfig):
    """What a model's configuration may say beside dbt's own words.

    Attributes:
        primary_key: a column, or a list of columns.
        table_options: what stands in `WITH (..)` of CREATE TABLE, by name.
        indexes: each with `columns`, and optionally `name`, `type` and `options`.
    """

    primary_key: str | list[str] | None = None
    table_options: dict[str, Any] | None = None
    indexes: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class TableRules:
    """What stands in the brackets of CREATE TABLE beside columns.

    Attributes:
        constraints: in SQL.
        has_primary_key: whether one of them is a primary key.
    """

    constraints: list[str]
    has_primary_key: bool


class LanceGatewayAdapter(SQLAdapter):
    """Builds models as tables and views of a gateway."""

    ConnectionManager = LanceGatewayConnectionManager
    Relation = LanceGatewayRelation
    Column = LanceGatewayColumn
    AdapterSpecificConfigs = LanceGatewayConfig

    CONSTRAINT_SUPPORT = MappingProxyType(
        {
            ConstraintType.check: ConstraintSupport.ENFORCED,
            ConstraintType.not_null: ConstraintSupport.ENFORCED,
            ConstraintType.unique: ConstraintSupport.NOT_ENFORCED,
            ConstraintType.primary_key: ConstraintSupport.ENFORCED,
            ConstraintType.foreign_key: ConstraintSupport.NOT_ENFORCED,
        }
    )
    _capabilities = CapabilityDict(
        {Capability.SchemaMetadataByRelations: CapabilitySupport(support=Support.Full)}
    )

    @classmethod
    def get_adapter_run_info(cls, config: RelationConfig) -> AdapterTrackingRelationInfo:
        """Return names for the log; dbt itself reads that of the package from that of the class."""
        return AdapterTrackingRelationInfo(
            adapter_name=cls.type(),
            base_adapter_version=base_version,
            adapter_version=version,
            model_adapter_details=cls._get_adapter_specific_run_info(config),
        )

    @classmethod
    def date_function(cls) -> str:
        """Return the SQL of the current time."""
        return "now()"

    @classmethod
    def convert_number_type(cls, agate_table: Any, col_idx: int) -> str:
        """Return the type of a seed's column of numbers."""
        converted = super().convert_number_type(agate_table, col_idx)
        return "double precision" if converted == "float8" else "bigint"

    @classmethod
    def convert_integer_type(cls, agate_table: Any, col_idx: int) -> str:
        """Return the type of a seed's column of whole numbers."""
        return "bigint"

    @classmethod
    def convert_datetime_type(cls, agate_table: Any, col_idx: int) -> str:
        """Return the type of a seed's column of times."""
        return "timestamp"

    def valid_incremental_strategies(self) -> list[str]:
        """Return the strategies of incremental models that there are."""
        return ["append", "merge", "delete+insert", "microbatch"]

    def get_columns_in_relation(self, relation: BaseRelation) -> list[LanceGatewayColumn]:
        """Return the columns of a table or view, with the types that a query has; none if it is not there."""
        schema = self.connections.fetch_schema(f"select * from {relation.render()} limit 0")
        if schema is None:
            return []
        lengths = dict(
            self.connections.fetch_rows(
                "select column_name, max_length from system.columns where max_length is not null"
                f" and table_schema = {_quote_text(relation.schema)}"
                f" and table_name = {_quote_text(relation.identifier)}"
            )
        )
        return [self.Column.from_arrow(field, lengths.get(field.name)) for field in schema]

    @available
    def insert_rows(self, relation: BaseRelation, columns: str, rows: Any) -> None:
        """Insert the rows of a seed in one statement.

        Args:
            relation: the table.
            columns: SQL names with commas between.
            rows: an agate table, with a column for each of these.

        Raises:
            DbtDatabaseError: a value is none of its column's type; nothing was written.
        """
        arrays = [pa.array([row[number] for row in rows.rows]) for number in range(len(rows.column_names))]
        marks = ", ".join("?" for _ in arrays)
        table = pa.table(arrays, names=[str(number) for number in range(len(arrays))])
        self.connections.insert(f"insert into {relation.render()} ({columns}) values ({marks})", table)

    @available
    @classmethod
    def render_rules(
        cls,
        columns: Mapping[str, Mapping[str, Any]],
        constraints: Sequence[Mapping[str, Any]],
        primary_key: str | Sequence[str] | None,
    ) -> TableRules:
        """Return the constraints that stand in the brackets of CREATE TABLE .. AS, which declares no columns.

        Args:
            columns: those of a model with a contract, by name.
            constraints: of the model.
            primary_key: what the model's `primary_key` says, if it does.

        Raises:
            DbtRuntimeError: there is more than one primary key.
        """
        parsed = [cls._parse_model_constraint(raw) for raw in constraints]
        for column in columns.values():
            name = cls.quote(column["name"]) if column.get("quote") else column["name"]
            parsed += [
                _of_table(cls._parse_column_constraint(raw), name) for raw in column.get("constraints") or []
            ]
        if primary_key:
            names = [primary_key] if isinstance(primary_key, str) else list(primary_key)
            parsed.append(ModelLevelConstraint(type=ConstraintType.primary_key, columns=names))
        keys = sum(constraint.type == ConstraintType.primary_key for constraint in parsed)
        if keys > 1:
            raise DbtRuntimeError(f"the model has {keys} primary keys: write one, of all of its columns")
        rendered = [
            cls.process_parsed_constraint(constraint, cls.render_model_constraint) for constraint in parsed
        ]
        return TableRules([rule for rule in rendered if rule], keys > 0)

    @classmethod
    def render_model_constraint(cls, constraint: ModelLevelConstraint) -> str | None:
        """Return a constraint of a table as CREATE TABLE takes it."""
        if constraint.type == ConstraintType.not_null:
            return f"check ({' and '.join(f'{column} is not null' for column in constraint.columns)})"
        rendered: str | None = super().render_model_constraint(constraint)
        return f"{rendered} not enforced" if rendered and constraint.type in _NOT_ENFORCED else rendered


def _of_table(constraint: ColumnLevelConstraint, column: str) -> ModelLevelConstraint:
    """Return a constraint of one column as one of its table."""
    return ModelLevelConstraint(
        type=constraint.type,
        name=constraint.name,
        expression=constraint.expression,
        warn_unenforced=constraint.warn_unenforced,
        warn_unsupported=constraint.warn_unsupported,
        to=constraint.to,
        to_columns=constraint.to_columns,
        columns=[column],
    )


def _quote_text(text: str | None) -> str:
    return "'" + (text or "").replace("'", "''") + "'"
