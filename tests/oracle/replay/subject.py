"""A table of a random history, beside the model of what it holds."""

import lance
import pyarrow as pa

from tests.oracle.answers import queries
from tests.oracle.replay.flavours import Flavour
from tests.oracle.replay.model import Column, TableModel
from tests.support.lake.tables import LsmTable
from tests.support.processes.writer_process import RegionWriter


def columns_of(dataset: lance.LanceDataset) -> tuple[Column, ...]:
    """A dataset's columns with their field ids."""
    ids = {column.name(): column.id() for column in dataset.lance_schema.fields()}
    return tuple(Column(item.name, ids[item.name], item.type, item.nullable) for item in dataset.schema)


def known_to(writer: RegionWriter) -> tuple[Column, ...]:
    """The columns that a writer found when it was opened."""
    return tuple(Column(item.name, writer.field_ids[item.name], item.type) for item in writer.schema)


class Subject:
    """A table under test with its model and the writers that lost their region."""

    def __init__(self, table: LsmTable, rows: pa.Table, flavour: Flavour) -> None:
        self.table = table
        self.model = TableModel(columns_of(table.dataset()), table.key)
        self.model.load(rows.to_pylist())
        ids = {column.name: column.field_id for column in self.model.columns}
        self.follows = {ids[name]: compute for name, compute in flavour.follows.items()}
        self.fenced: list[RegionWriter] = []
        self.dropped: dict[int, pa.DataType] = {}
        self.added = 0
        self.has_repeated_keys = False

    def shape(self) -> queries.Table:
        return queries.Table(self.table.name, self.model.columns, self.table.key)

    def refresh_columns(self) -> None:
        columns = columns_of(self.table.dataset())
        self.dropped |= {
            column.field_id: column.type for column in self.model.columns if column not in columns
        }
        self.model.set_columns(columns)

    def opened(self, region: str, writer: RegionWriter) -> None:
        """A writer claimed the region: it replayed the log into the columns that it knows."""
        history = self.model.region(region)
        history.current_generation = writer.current_generation
        history.replayed_into(set(writer.field_ids.values()))
