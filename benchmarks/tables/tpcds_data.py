"""Data and queries of TPC-DS, by DuckDB's extension.

The extension fits one version of DuckDB alone, which is not the one of this project. Both are installed in a
folder of their own.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.tables.wholesale import key_field

_PACKAGES: Final = ("duckdb==1.5.5", "duckdb-extension-tpcds==1.5.5")
_QUERIES: Final = "queries.json"
_SCRIPT: Final = """
import json, pathlib, sys
import duckdb
import duckdb_extension_tpcds
home, scale = pathlib.Path(sys.argv[1]), float(sys.argv[2])
(extension,) = pathlib.Path(duckdb_extension_tpcds.__file__).parent.rglob("tpcds.duckdb_extension")
database = duckdb.connect(config={"allow_unsigned_extensions": "true"})
database.execute(f"LOAD '{extension}'")
database.execute(f"CALL dsdgen(sf={scale})")
for (name,) in database.execute("SHOW TABLES").fetchall():
    database.execute(f"COPY {name} TO '{home / name}.parquet' (FORMAT parquet)")
queries = database.execute("SELECT query_nr, query FROM tpcds_queries() ORDER BY 1").fetchall()
(home / "queries.json").write_text(json.dumps(queries))
"""
_KEYS: Final = {
    "catalog_returns": ("cr_item_sk", "cr_order_number"),
    "catalog_sales": ("cs_item_sk", "cs_order_number"),
    "inventory": ("inv_date_sk", "inv_item_sk", "inv_warehouse_sk"),
    "store_returns": ("sr_item_sk", "sr_ticket_number"),
    "store_sales": ("ss_item_sk", "ss_ticket_number"),
    "web_returns": ("wr_item_sk", "wr_order_number"),
    "web_sales": ("ws_item_sk", "ws_order_number"),
}
"""Those of the other tables are their first columns."""


@dataclass(frozen=True, slots=True)
class TpcdsData:
    """The data of one scale factor.

    Attributes:
        home: directory of its files.
        scale: the factor.
    """

    home: Path
    scale: float

    def generate(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the tables with their names; their key columns are marked as such."""
        self._ensure()
        for path in sorted(self.home.glob("*.parquet")):
            yield path.stem, _mark_key(path.stem, pq.read_table(path))

    def read_queries(self) -> dict[str, str]:
        """Return the queries by their numbers."""
        self._ensure()
        queries = json.loads((self.home / _QUERIES).read_text(encoding="utf-8"))
        return {str(number): sql.strip().rstrip(";") for number, sql in queries}

    def _ensure(self) -> None:
        # Written last.
        if (self.home / _QUERIES).exists():
            return
        self.home.mkdir(parents=True, exist_ok=True)
        packages = self.home.parent / "tpcds-packages"
        for arguments in (
            ["-m", "pip", "install", "--quiet", "--no-compile", "--target", str(packages), *_PACKAGES],
            ["-c", _SCRIPT, str(self.home), str(self.scale)],
        ):
            variables = {**os.environ, "PYTHONPATH": str(packages)}
            subprocess.run([sys.executable, *arguments], check=True, stdout=sys.stderr, env=variables)


def _mark_key(name: str, rows: pa.Table) -> pa.Table:
    key = _KEYS.get(name, (rows.schema.names[0],))
    fields = [
        key_field(field.name, field.type, key.index(field.name) + 1 if len(key) > 1 else None)
        if field.name in key
        else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))
