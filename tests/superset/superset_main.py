"""Asks a gateway as Superset does; runs in Superset's own Python, and prints what came as JSON.

Arguments: the URL of the database.
"""

import datetime as dt
import json
import sys
from typing import Any

from superset.app import create_app


def main() -> None:
    """Ask everything."""
    app = create_app()
    with app.app_context():
        from flask_appbuilder import Model  # noqa: PLC0415 - needs an application
        from superset.extensions import db  # noqa: PLC0415

        Model.metadata.create_all(db.engine)
        with app.test_request_context("/"):
            answers = ask(sys.argv[1])
    sys.stdout.write("\nANSWERS " + json.dumps(answers, default=str) + "\n")


def ask(url: str) -> dict[str, Any]:
    """Return the answers under their names."""
    from superset.extensions import db  # noqa: PLC0415 - needs an application
    from superset.models.core import Database  # noqa: PLC0415
    from superset.sql.parse import Table  # noqa: PLC0415

    lake = Database(database_name="lake", sqlalchemy_uri=url)
    db.session.add(lake)
    db.session.commit()
    visits = Table("visits", "main")
    return {
        "spec": lake.db_engine_spec.engine_name,
        "backend": lake.backend,
        "schemas": sorted(lake.get_all_schema_names()),
        "tables": sorted(one[0] for one in lake.get_all_table_names_in_schema(None, "main")),
        "views": sorted(one[0] for one in lake.get_all_view_names_in_schema(None, "main")),
        "columns": {one["column_name"]: name_kind(lake, one["type"]) for one in lake.get_columns(visits)},
        "key": read_key(lake),
        "functions": lake.db_engine_spec.get_function_names(lake),
        "frame": lake.get_df("SELECT id, page, seen, seconds FROM visits ORDER BY id").to_dict("list"),
        "preview": lake.get_df(lake.select_star(visits, limit=1)).to_dict("list"),
        "nothing": lake.get_df("SELECT id FROM visits WHERE id < 0").to_dict("list"),
        "charts": ask_charts(lake),
        "grains": {
            str(grain.duration): str(
                lake.get_df(f"SELECT {grain.function.format(col='seen')} AS t FROM visits WHERE id = 1")["t"][
                    0
                ]
            )
            for grain in lake.grains()
        },
        "epoch": str(
            lake.get_df(f"SELECT {lake.db_engine_spec.epoch_to_dttm().format(col='86400')} AS t")["t"][0]
        ),
        "error": read_error(lake, "SELECT nothing FROM visits"),
        "write": read_error(lake, "DELETE FROM visits"),
    }


def name_kind(lake: Any, kind: Any) -> list[str | None]:
    """Return a column's type, and what Superset takes it for."""
    name = kind.compile(dialect=lake.get_dialect())
    spec = lake.db_engine_spec.get_column_spec(name)
    return [name, None if spec is None else spec.generic_type.name]


def ask_charts(lake: Any) -> dict[str, Any]:
    """Return the rows of charts over a data set of the table."""
    from superset.connectors.sqla.models import SqlaTable, SqlMetric  # noqa: PLC0415 - needs an application
    from superset.extensions import db  # noqa: PLC0415

    data_set = SqlaTable(table_name="visits", schema="main", database=lake, main_dttm_col="seen")
    data_set.metrics = [SqlMetric(metric_name="total", expression="sum(seconds)")]
    db.session.add(data_set)
    data_set.fetch_metadata()
    db.session.commit()
    base: dict[str, Any] = {
        "granularity": "seen",
        "from_dttm": dt.datetime(2026, 1, 1),
        "to_dttm": dt.datetime(2026, 2, 1),
        "metrics": ["total"],
        "filter": [],
        "is_timeseries": False,
        "row_limit": 100,
        "extras": {},
    }
    asked = {
        "series": {"groupby": ["page"], "is_timeseries": True, "extras": {"time_grain_sqla": "P1D"}},
        "limited series": {
            "groupby": ["page"],
            "is_timeseries": True,
            "series_limit": 1,
            "series_limit_metric": "total",
            "extras": {"time_grain_sqla": "P1W"},
        },
        "filtered": {"groupby": ["page"], "filter": [{"col": "page", "op": "IN", "val": ["/", None]}]},
        "quoted": {"groupby": ["page"], "filter": [{"col": "page", "op": "==", "val": "it's"}]},
        "days": {"groupby": ["day"], "filter": [{"col": "day", "op": ">=", "val": "2026-01-03"}]},
        "having": {"groupby": ["page"], "extras": {"having": "sum(seconds) > 6"}},
    }
    charts = {}
    for name, chart in asked.items():
        result = data_set.query({**base, **chart})
        if result.error_message:
            charts[name] = result.error_message
            continue
        rows = result.df.to_dict("records")
        charts[name] = sorted(
            (list(row.values()) for row in rows), key=lambda row: [str(value) for value in row]
        )
    return charts


def read_key(lake: Any) -> list[str]:
    """Return the columns of the table's key."""
    with lake.get_inspector() as inspector:
        key: list[str] = inspector.get_pk_constraint("visits")["constrained_columns"]
    return key


def read_error(lake: Any, sql: str) -> str:
    """Return what SQL Lab shows of a statement that is refused."""
    try:
        lake.get_df(sql)
    except Exception as error:  # noqa: BLE001 - whatever Superset makes of it
        return str(lake.db_engine_spec.extract_error_message(error))
    return ""


main()
