"""The searches that are compared: Lance on the base alone, Lance's LSM planner, and the gateway."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import adbc_driver_flightsql.dbapi as flight_sql
import lance
import numpy as np
import pyarrow as pa

from benchmarks.reports.baselines import read_region_snapshots
from benchmarks.reports.queries import build_vector_search
from benchmarks.tables.search_content import Keys, Vectors
from benchmarks.tables.search_table import K, SearchTable
from lance_gateway.planner.engine import QueryEngine

VectorSearch = Callable[[Vectors], pa.Table]
"""One vector to a table of the columns `id` and `_distance`, nearest first."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard an index is searched, by all sides alike.

    Attributes:
        nprobes: Partitions to look at.
        refine_factor: So many times k candidates are ranked by their true distances.
    """

    nprobes: int = 20
    refine_factor: int = 4


def open_base_knn(uri: str, effort: Effort, k: int = K) -> VectorSearch:
    """Lance's own search of one dataset. It does not see generations."""
    dataset = lance.dataset(uri)

    def search(vector: Vectors) -> pa.Table:
        nearest = {"column": "vec", "q": vector, "k": k}
        nearest |= {"nprobes": effort.nprobes, "refine_factor": effort.refine_factor}
        return dataset.scanner(columns=["id", "_distance"], nearest=nearest).to_table()

    return search


def open_lsm_knn(table: SearchTable, effort: Effort, overfetch: float = 1.0) -> VectorSearch:
    """Lance's LSM planner over base and generations, refining as it does by itself."""
    planner = lance.LsmVectorSearchPlanner(lance.dataset(table.uri), read_region_snapshots(table.uri), "vec")
    options = {"k": K, "nprobes": effort.nprobes, "overfetch_factor": overfetch}

    def search(vector: Vectors) -> pa.Table:
        return planner.plan_search(pa.array(vector), columns=["id", "_distance"], **options).to_table()

    return search


def open_gateway_knn(engine: QueryEngine, effort: Effort | None) -> VectorSearch:
    """Return a search by the gateway in this process, with one prepared statement."""
    options = {} if effort is None else dataclasses.asdict(effort)
    prepared = engine.prepare(build_vector_search("$1", k=K, **options))

    def search(vector: Vectors) -> pa.Table:
        return prepared.execute((create_parameter(vector),)).read_all()

    return search


def open_base_text(uri: str, k: int = K) -> Callable[[str], pa.Table]:
    """Lance's own full-text search of one dataset. It does not see generations."""
    dataset = lance.dataset(uri)

    def search(text: str) -> pa.Table:
        return dataset.scanner(columns=["id", "_score"], full_text_query=text, limit=k).to_table()

    return search


@contextmanager
def open_adbc_search(uri: str, sql: str) -> Iterator[Callable[..., pa.Table]]:
    """Return a search by one statement that a server has prepared, with new parameters in each call."""
    with flight_sql.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:

        def search(*parameters: object) -> pa.Table:
            # The cursor prepares a text once and only binds while the text stays the same.
            cursor.execute(sql, parameters or None)
            return cursor.fetch_arrow_table()

        yield search


def create_parameter(vector: Vectors) -> pa.Scalar:
    """Return a vector as a bound parameter: a list of numbers."""
    return pa.scalar(vector, pa.list_(pa.float32()))


def find_keys(search: VectorSearch, table: SearchTable) -> list[Keys]:
    """Return the keys that a search finds for each of the table's vectors."""
    return [np.asarray(search(vector).column("id").to_numpy()) for vector in table.vectors]
