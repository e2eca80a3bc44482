"""Histories whose tables are read in every way that there is, each of which must give the oracle's answer.

In parts, at once or after the table went on; by plans that were made before; by readers that are stopped on
their way.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lance_gateway.gateway.protocol.errors import QueryCancelledError
from lance_gateway.memwal.errors import PreconditionError, UnavailableError
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import PreparedQuery, QueryEngine, SessionSettings
from lance_gateway.planner.plans.scan_parts import OfferedParts, ScanPart
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.protos import snapshot_pb2
from tests.oracle.answers import queries
from tests.oracle.answers.answers import Oracle
from tests.oracle.answers.predicates import Draw, predicate
from tests.oracle.machines.machine import Histories
from tests.oracle.replay.executors import Consistency
from tests.support.judging.results import assert_same_rows

Columns = tuple[tuple[str, pa.DataType], ...]

MAX_OFFERS = 4
STOPPED = QueryCancelledError("stopped by the history")


@dataclass(frozen=True)
class Offer:
    """A scan that was offered in parts, and the rows that they must give for ever."""

    query: PreparedQuery
    settings: SessionSettings
    parts: OfferedParts
    expected: pa.Table


@dataclass(frozen=True)
class Kept:
    """A plan, and the columns that its client was told."""

    query: PreparedQuery
    sql: str
    columns: Columns


class ManyReaders(Histories):
    """Histories read by an engine in this process, and by another one that has nothing open."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = _engine(self.directory)
        self.other = _engine(self.directory)
        self.offers: list[Offer] = []
        self.kept: dict[str, Kept] = {}

    def teardown(self) -> None:
        self.engine.close()
        self.other.close()
        super().teardown()

    def check(self, data: Any) -> None:
        super().check(data)
        ways: list[Callable[[Draw, Consistency], None]] = [
            self.offer_parts,
            self.read_parts_late,
            self.run_kept_plans,
            self.stop_readers,
        ]
        consistency: Consistency = data.draw(st.sampled_from(("strong", "flushed")))
        data.draw(st.sampled_from(ways), label="another way to read")(data.draw, consistency)

    # In parts

    def offer_parts(self, draw: Draw, consistency: Consistency) -> None:
        """Take parts of a scan, and read them while the table is as it was."""
        shape = draw(st.sampled_from(self.subjects)).shape()
        where = f" WHERE {predicate(draw, shape.columns)}" if draw(st.booleans()) else ""
        sql = f"SELECT * FROM {shape.name}{where}"
        settings = SessionSettings(consistency=consistency)
        query = self.engine.prepare(sql, settings)
        parts = query.parts(draw(st.integers(2, 5)))
        if parts is None:
            return  # a lookup
        offer = Offer(query, settings, parts, Oracle(self.expected(consistency)).answer(sql))
        self._read(offer, self.engine, opened=True)
        self.offers = [offer, *self.offers][:MAX_OFFERS]

    def read_parts_late(self, draw: Draw, consistency: Consistency) -> None:
        """Whatever became of the table: the rows of the snapshot, or an error that says that it is gone."""
        for offer in self.offers:
            engine = draw(st.sampled_from((self.engine, self.other)))
            try:
                self._read(offer, engine, opened=draw(st.booleans()))
            except (UnavailableError, PreconditionError):
                continue

    def _read(self, offer: Offer, engine: QueryEngine, *, opened: bool) -> None:
        query = engine.prepare(offer.query.sql, offer.settings, promised=offer.query.digest)
        tables = []
        for part in offer.parts.parts:
            received = ScanPart.from_message(
                snapshot_pb2.ScanPart.FromString(part.to_message().SerializeToString())
            )
            snapshot = offer.parts.snapshot if opened and engine is self.engine else None
            tables.append(query.execute_part(received, snapshot=snapshot).read_all())
        where = f"{offer.query.sql} in {len(tables)} parts"
        assert_same_rows(pa.concat_tables(tables), offer.expected, context=where)

    # By plans that were made before

    def run_kept_plans(self, draw: Draw, consistency: Consistency) -> None:
        """A plan gives the columns that its client was told, or nothing."""
        expected = self.expected("strong")
        for subject in self.subjects:
            name = subject.table.name
            columns = tuple((column.name, column.type) for column in subject.model.columns)
            kept = self.kept.get(name)
            if kept is not None:
                for ask in (
                    lambda kept=kept: kept.query,
                    lambda kept=kept: self.engine.prepare(kept.sql, promised=kept.query.digest),
                ):
                    self._run_kept(ask, kept, columns, expected[name])
            sql = f"SELECT * FROM {name}"
            self.kept[name] = Kept(self.engine.prepare(sql), sql, columns)

    def _run_kept(
        self, ask: Callable[[], PreparedQuery], kept: Kept, columns: Columns, expected: pa.Table
    ) -> None:
        try:
            answer = ask().execute().read_all()
        except (PreconditionError, UnavailableError):
            assert kept.columns != columns, kept.sql
            return
        # What was planned a moment ago may do without columns that were added since.
        assert set(kept.columns) <= set(columns), kept.sql
        names = [name for name, _ in kept.columns]
        assert_same_rows(answer, expected.select(names), context=f"kept: {kept.sql}")

    # By readers that are stopped

    def stop_readers(self, draw: Draw, consistency: Consistency) -> None:
        """Stopped or abandoned anywhere: a right answer or the error, and right answers ever after."""
        drawn = queries.query(draw, [subject.shape() for subject in self.subjects])
        oracle = Oracle(self.expected(consistency))
        query = self.engine.prepare(drawn.sql, SessionSettings(consistency=consistency))
        for how in draw(st.lists(st.sampled_from((_abandoned, _stopped, _stopped_anywhere)), max_size=3)):
            answer = how(query, drawn.parameters)
            if answer is not None:
                oracle.check(drawn, answer, f"read by one who was {how.__name__}")
        oracle.check(drawn, query.execute(drawn.parameters).read_all(), "after readers were stopped")


def _engine(root: Path) -> QueryEngine:
    return QueryEngine(Catalog.open(str(root)))


def _abandoned(query: PreparedQuery, parameters: tuple[pa.Scalar, ...]) -> None:
    """The reader takes one batch, and goes away."""
    with query.execute(parameters) as reader:
        next(reader, None)


def _stopped(query: PreparedQuery, parameters: tuple[pa.Scalar, ...]) -> pa.Table | None:
    """Somebody stops the statement between two batches."""
    control = RunControl()
    reader = query.execute(parameters, control=control)
    batches = [batch for batch in [next(reader, None)] if batch is not None]
    control.cancel(STOPPED)
    try:
        return pa.Table.from_batches([*batches, *reader], reader.schema)
    except QueryCancelledError:
        return None


def _stopped_anywhere(query: PreparedQuery, parameters: tuple[pa.Scalar, ...]) -> pa.Table | None:
    """Another thread stops the statement while it runs."""
    control = RunControl()
    begun = threading.Event()

    def stop() -> None:
        begun.wait()
        control.cancel(STOPPED)

    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        reader = query.execute(parameters, control=control)
        begun.set()
        return reader.read_all()
    except QueryCancelledError:
        return None
    finally:
        begun.set()
        stopping.join()
