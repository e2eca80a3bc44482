"""A root with an engine over it, and statements as one line each."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pytest

from lance_gateway.memwal.base.index_details import MemWalIndexDetails, read_index_details
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.planner.access.rights import FULL_ACCESS, Access
from lance_gateway.planner.engine import PreparedQuery, QueryEngine, SessionSettings
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.writes.dml.prepared_write import WriteResult
from tests.support.judging.results import rows_of

EAGER = WriteOptions(hold_ms=0)


@dataclass(frozen=True)
class Gateway:
    """An engine over a root."""

    root: Path
    engine: QueryEngine

    def __call__(self, sql: str, access: Access = FULL_ACCESS, **settings: Any) -> Any:
        """Rows of a query, rows that a statement returns, or how many it affected."""
        prepared = self.engine.prepare_statement(sql, SessionSettings(**settings), access)
        if isinstance(prepared, PreparedQuery):
            return rows_of(prepared.execute().read_all())
        result: WriteResult = prepared.execute()
        return result.affected if result.rows is None else result.rows.to_pylist()

    def dataset(self, name: str) -> lance.LanceDataset:
        """The base table as Lance sees it."""
        return lance.dataset(self.root / f"{name}.lance")

    def details(self, name: str) -> MemWalIndexDetails:
        """The MemWAL index of a table."""
        storage = Storage.open(str(self.root / f"{name}.lance"))
        found = read_index_details(storage, self.dataset(name).version)
        assert found is not None
        return found

    def field_ids(self, name: str) -> dict[str, int]:
        """Lance field ids by column."""
        return {field.name(): field.id() for field in self.dataset(name).lance_schema.fields()}


@pytest.fixture
def open_gateway() -> Iterator[Callable[[Path], Gateway]]:
    """Opens gateways over roots, several over one if need be."""
    with ExitStack() as stack:

        def opened(root: Path, writing: WriteOptions | None = EAGER) -> Gateway:
            engine = QueryEngine(Catalog.open(str(root), writing=writing))
            stack.callback(engine.close)
            return Gateway(root, engine)

        yield opened


@pytest.fixture
def sql(root: Path, open_gateway: Callable[[Path], Gateway]) -> Gateway:
    """A gateway over an empty root."""
    return open_gateway(root)
