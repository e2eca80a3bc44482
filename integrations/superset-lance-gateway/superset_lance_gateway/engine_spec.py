"""What Superset knows of the gateway's SQL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from sqlalchemy import types
from superset.constants import TimeGrain
from superset.db_engine_specs.base import BaseEngineSpec

_TRUNCATED: Final[Mapping[str, str]] = MappingProxyType(
    {
        TimeGrain.SECOND: "second",
        TimeGrain.MINUTE: "minute",
        TimeGrain.HOUR: "hour",
        TimeGrain.DAY: "day",
        TimeGrain.WEEK: "week",
        TimeGrain.MONTH: "month",
        TimeGrain.QUARTER: "quarter",
        TimeGrain.YEAR: "year",
    }
)
_BINNED: Final[Mapping[str, str]] = MappingProxyType(
    {
        TimeGrain.FIVE_SECONDS: "5 seconds",
        TimeGrain.THIRTY_SECONDS: "30 seconds",
        TimeGrain.FIVE_MINUTES: "5 minutes",
        TimeGrain.TEN_MINUTES: "10 minutes",
        TimeGrain.FIFTEEN_MINUTES: "15 minutes",
        TimeGrain.THIRTY_MINUTES: "30 minutes",
        TimeGrain.SIX_HOURS: "6 hours",
    }
)


class LanceGatewayEngineSpec(BaseEngineSpec):
    """The settings of `lance_gateway://`; Superset calls the methods."""

    engine = "lance_gateway"
    engine_name = "Lance Gateway"
    drivers = {"adbc": "Arrow Flight SQL", "tls": "Arrow Flight SQL, encrypted"}  # noqa: RUF012 - Superset's form
    default_driver = "adbc"
    sqlalchemy_uri_placeholder = "lance_gateway+tls://user:password@host:31337"
    # Files would become tables without a key.
    supports_file_upload = False
    supports_multivalues_insert = True

    _time_grain_expressions = {  # noqa: RUF012 - Superset's form
        None: "{col}",
        **{grain: f"DATE_TRUNC('{unit}', {{col}})" for grain, unit in _TRUNCATED.items()},
        **{
            grain: f"DATE_BIN(INTERVAL '{length}', {{col}}, TIMESTAMP '1970-01-01 00:00:00')"
            for grain, length in _BINNED.items()
        },
        # Weeks of DATE_TRUNC begin on Monday.
        TimeGrain.WEEK_STARTING_MONDAY: "DATE_TRUNC('week', {col})",
        TimeGrain.WEEK_STARTING_SUNDAY: ("DATE_TRUNC('week', {col} + INTERVAL '1 day') - INTERVAL '1 day'"),
        TimeGrain.WEEK_ENDING_SATURDAY: ("DATE_TRUNC('week', {col} + INTERVAL '1 day') + INTERVAL '5 days'"),
        TimeGrain.WEEK_ENDING_SUNDAY: "DATE_TRUNC('week', {col}) + INTERVAL '6 days'",
    }

    @classmethod
    def epoch_to_dttm(cls) -> str:
        """Return how seconds since 1970 become a time."""
        return "from_unixtime({col})"

    @classmethod
    def convert_dttm(
        cls, target_type: str, dttm: datetime, db_extra: dict[str, Any] | None = None
    ) -> str | None:
        """Return a time as a literal of a column's type; None where the type has no times."""
        kind = cls.get_sqla_column_type(target_type)
        if isinstance(kind, types.Date):
            return f"DATE '{dttm.date().isoformat()}'"
        if isinstance(kind, types.DateTime):
            return f"TIMESTAMP '{dttm.isoformat(sep=' ', timespec='microseconds')}'"
        return None

    @classmethod
    def get_datatype(cls, type_code: Any) -> str | None:
        """Return the name of a result's type, which the driver describes by Arrow's."""
        return str(type_code).upper()

    @classmethod
    def fetch_data(cls, cursor: Any, limit: int | None = None) -> list[tuple[Any, ...]]:
        """Return the rows; unsigned integers of 64 bits as decimals, since Superset stops at 2^63."""
        rows: list[tuple[Any, ...]] = super().fetch_data(cursor, limit)
        unsigned = frozenset(
            number for number, column in enumerate(cursor.description or ()) if pa.types.is_uint64(column[1])
        )
        if not unsigned:
            return rows
        return [
            tuple(
                Decimal(value) if number in unsigned and value is not None else value
                for number, value in enumerate(row)
            )
            for row in rows
        ]

    @classmethod
    def get_function_names(cls, database: Any) -> list[str]:
        """Return the functions that SQL Lab completes."""
        found = database.get_df("SELECT DISTINCT routine_name FROM information_schema.routines ORDER BY 1")
        return [str(name) for name in found["routine_name"]]
