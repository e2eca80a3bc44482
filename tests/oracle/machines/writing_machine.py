"""Random histories of tables that SQL writes, through two gateways, among Lance's own writers."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from lance_gateway.pipeline.jobs.lake import LakeTable
from tests.oracle.answers.violations import RULES, VIOLATED, violation
from tests.oracle.machines.machine import Histories
from tests.oracle.replay import ingesting
from tests.oracle.replay.changes import CHANGES, Change, Target
from tests.oracle.replay.executors import Executor
from tests.oracle.replay.flavours import BY_PUBLISHED_BUCKET, FLAVOURS, Flavour
from tests.oracle.replay.ingesting import DELETED, SEQUENCE
from tests.oracle.replay.model import Column, RegionHistory
from tests.oracle.replay.subject import Subject
from tests.support.judging.results import rows_of
from tests.support.lake import manifests
from tests.support.lake.ingesting import Batch
from tests.support.lake.tables import unpartitioned
from tests.support.lake.wal import LoggedEntry, read_log
from tests.support.processes.gateways import EngineGateway, Gateway, ServedGateway
from tests.support.processes.writer_process import RegionWriter


def _writable(flavour: Flavour) -> Flavour:
    """With regions that everybody can find: one where no spec says which, and NULL as a value like others."""
    layout = flavour.layout
    if layout.name.startswith("no spec"):
        return Flavour(flavour.key, unpartitioned(tuple(field.name for field in flavour.key), 1))
    encode = layout.encode
    assert encode is not None
    if flavour.follows:
        layout = replace(layout, encode=lambda values: {"year": b""} if values == (None,) else encode(values))
    return Flavour(flavour.key, layout, flavour.follows)


WRITABLE: Mapping[str, tuple[Flavour, ...]] = {
    kind: tuple(
        _writable(one)
        for one in flavours
        if not one.layout.name.endswith("not recorded") and one.layout is not BY_PUBLISHED_BUCKET
    )
    for kind, flavours in FLAVOURS.items()
}
"""Without layouts whose regions only their own writers know: how they hash is told by rows that are there."""


class WritingHistories(Histories):
    """Adds SQL that writes to the steps of the other histories, and asks both gateways after each step."""

    flavours = WRITABLE
    is_shared = True
    changes: Collection[str] = (*CHANGES, "insert values", "update")
    open_gateway: Callable[[Path], Gateway]

    def __init__(self) -> None:
        super().__init__()
        self.gateways: list[Gateway] = []
        self.epochs: dict[tuple[str, str], int] = {}
        self.ingested: list[Batch] = []

    def open_executor(self, root: Path) -> Executor:  # type: ignore[override]
        for _ in range(2):
            self.gateways.append(self.open_gateway(root))
        return _Closing(self.gateways)

    def check(self, data: Any) -> None:
        for gateway in data.draw(st.permutations(self.gateways)):
            self.executor = gateway
            super().check(data)

    def teardown(self) -> None:
        self.executor = _Closing(self.gateways)
        super().teardown()

    # Steps

    @rule(data=st.data())
    def change(self, data: Any) -> None:
        self._change(data)

    @rule(data=st.data())
    def change_more(self, data: Any) -> None:
        """Half of all steps, as there are many others."""
        self._change(data)
        self._change(data)

    @precondition(lambda self: isinstance(self.gateways[0], EngineGateway))
    @rule(data=st.data())
    def gateway_flushes(self, data: Any) -> None:
        subject = data.draw(st.sampled_from(self.subjects))
        gateway = data.draw(st.sampled_from(self.gateways))
        assert isinstance(gateway, EngineGateway)
        before = self._logs(subject)
        gateway.flush(subject.table.name)
        self._settle(subject, before, {})
        self.check(data)

    @precondition(lambda self: isinstance(self.gateways[0], EngineGateway))
    @rule(data=st.data())
    def gateway_restarts(self, data: Any) -> None:
        """One of the gateways is closed, and another one takes its place."""
        number = data.draw(st.integers(0, 1))
        before = [self._logs(subject) for subject in self.subjects]
        self.gateways[number].close()
        self.gateways[number] = self.open_gateway(self.directory)
        for subject, logs in zip(self.subjects, before, strict=True):
            self._settle(subject, logs, {})
        self.check(data)

    def _change(self, data: Any) -> None:
        subject, other = data.draw(st.permutations(self.subjects))
        gateway = data.draw(st.sampled_from(self.gateways))
        kinds = [one for one in self.changes if one != "ingest" or isinstance(gateway, ServedGateway)]
        drawn = CHANGES[data.draw(st.sampled_from(kinds))](data.draw, _target(subject), _target(other))
        self._drop_fenced(subject)
        before = self._logs(subject)
        try:
            affected = _run(gateway, subject.table.name, drawn)
        except Exception as error:
            raise AssertionError(f"{drawn.sql} {drawn.parameters or drawn.many or ''} failed") from error
        assert affected == drawn.affected, f"{drawn.sql} affected {affected} rows, not {drawn.affected}"
        self._settle(subject, before, drawn.rows, at_once=drawn.many is None)
        self.check(data)

    # Rules of the tables

    @initialize(data=st.data())
    def create(self, data: Any) -> None:
        """Give the tables rules that no other step violates."""
        super().create(data)
        for subject in self.subjects:
            before = self._logs(subject)
            for rule_of_table in RULES:
                data.draw(st.sampled_from(self.gateways)).write(
                    f"ALTER TABLE {subject.table.name} {rule_of_table}"
                )
            self._settle(subject, before, {})
        self._violate(data)

    @rule(data=st.data())
    def violate(self, data: Any) -> None:
        """What has a row that violates a rule is refused whole, and loses nothing."""
        self._violate(data)

    def _violate(self, data: Any) -> None:
        subject = data.draw(st.sampled_from(self.subjects))
        gateway = data.draw(st.sampled_from(self.gateways))
        drawn = violation(data.draw, _target(subject), bulk=isinstance(gateway, ServedGateway))
        self._drop_fenced(subject)
        before = self._logs(subject)
        with pytest.raises(Exception, match=VIOLATED):
            _run(gateway, subject.table.name, drawn)
        self._settle(subject, before, {})
        self.check(data)

    # Names of tables

    @rule(data=st.data())
    def swap_names(self, data: Any) -> None:
        """The tables exchange their names, as tools do that replace one, and exchange them again."""
        first, second = self.subjects
        for subject in self.subjects:
            self._drop_fenced(subject)
        before = [self._logs(subject) for subject in self.subjects]
        self._swap(data)
        for gateway in self.gateways:
            assert _keys(gateway, first.table.name, second) == set(second.model.rows())
            assert _keys(gateway, second.table.name, first) == set(first.model.rows())
        self._swap(data)
        for subject, logs in zip(self.subjects, before, strict=True):
            self._settle(subject, logs, {})
        self.check(data)

    def _swap(self, data: Any) -> None:
        first, second = (subject.table.name for subject in self.subjects)
        for old, new in ((first, "aside"), (second, first), ("aside", second)):
            data.draw(st.sampled_from(self.gateways)).write(f"ALTER TABLE {old} RENAME TO {new}")

    @rule(data=st.data())
    def replace_a_copy(self, data: Any) -> None:
        """A table takes the place of another one, of which each gateway may hold regions."""
        subject = data.draw(st.sampled_from(self.subjects))
        gateway = data.draw(st.sampled_from(self.gateways))
        key = ", ".join(f'"{name}"' for name in subject.table.key)
        query = f"SELECT {key} FROM {subject.table.name}"
        rows = set(subject.model.rows())
        assert gateway.write(f"CREATE OR REPLACE TABLE copy (PRIMARY KEY ({key})) AS {query}") == len(rows)
        for one in self.gateways:
            assert _keys(one, "copy", subject) == rows
        assert data.draw(st.sampled_from(self.gateways)).write("DELETE FROM copy") == len(rows)

    # Spark

    @rule(data=st.data())
    def ingest(self, data: Any) -> None:
        """A batch, by tasks that claim their regions; then perhaps once more, which writes nothing."""
        subject = data.draw(st.sampled_from(self.subjects))
        self._drop_fenced(subject)
        before = self._logs(subject)
        table = LakeTable.at(str(subject.table.path))
        most = subject.table.config["max_memtable_rows"]
        batch, rows = ingesting.batch(data.draw, _target(subject), table, len(self.ingested), most)
        tasks = batch.route_tasks()
        for task in tasks:
            batch.write(task)
        if data.draw(st.booleans(), label="a task is tried twice"):
            batch.write(data.draw(st.sampled_from(tasks)))
        batch.run()
        self.ingested.append(batch)
        self._settle(subject, before, rows, at_once=False)
        self.check(data)

    @precondition(lambda self: self.ingested)
    @rule(data=st.data())
    def straggle(self, data: Any) -> None:
        """An attempt of a task wakes up whose batch is complete: it writes nothing."""
        batch = data.draw(st.sampled_from(self.ingested))
        (subject,) = (one for one in self.subjects if str(one.table.path) == batch.table.uri)
        before = self._logs(subject)
        if set(batch.rows.column_names) - {DELETED, SEQUENCE} <= {one.name for one in subject.model.columns}:
            for task in batch.route_tasks():
                assert batch.write(task) == ()
        self._settle(subject, before, {})
        self.check(data)

    # What SQL did to the regions

    def _logs(self, subject: Subject) -> dict[str, tuple[int, int]]:
        """Each region's epoch, and the last position of its log."""
        table = subject.table.path
        found = {}
        for region in manifests.list_region_ids(table):
            log = read_log(table, region)
            found[region] = (
                manifests.read_manifest(table, region).writer_epoch,
                log[-1].position if log else 0,
            )
        return found

    def _settle(
        self,
        subject: Subject,
        before: Mapping[str, tuple[int, int]],
        rows: Mapping[Any, Any],
        *,
        at_once: bool = True,
    ) -> None:
        """Bring the model to what the log says of generations, and to `rows`, which must be in the log."""
        path = subject.table.path
        entries: dict[str, list[LoggedEntry]] = {}
        for region in manifests.list_region_ids(path):
            epoch, position = before.get(region, (0, 0))
            manifest = manifests.read_manifest(path, region)
            if manifest.writer_epoch != epoch:
                self._replayed(subject, subject.model.region(region))
            entries[region] = [one for one in read_log(path, region, position) if one.rows is not None]
        for key, cells in rows.items():
            named = dict(zip(subject.table.key, key, strict=True))
            region = subject.table.region_of(named)
            assert entries.get(region), f"{named} is not in the log of its region {region}"
            holding = [entry for entry in entries[region] if _holds(entry, named)]
            assert holding, f"{named} is not in what was logged in its region {region}"
            entry = holding[-1]
            named_cells = named if cells is None else _by_name(subject, cells)
            ids = None if cells is None else {one.name: one.field_id for one in subject.model.columns}
            subject.model.write(region, [named_cells], ids, entry.generation, 0)
        for region, logged in entries.items():
            # All or nothing: what a statement does in a region is one entry.
            assert len(logged) <= 1 or not at_once, f"{len(logged)} entries in region {region}"
        if not rows:
            assert not any(entries.values()), f"what changes no row wrote {entries}"
        for region in entries:
            manifest = manifests.read_manifest(path, region)
            subject.model.region(region).current_generation = manifest.current_generation
        self._drop_fenced(subject)

    def may_change(self, subject: Subject, column: Column) -> bool:
        """Not what regions follow from. Nor the newest one, lest its id is given to another one.

        Only then does it matter when a gateway replays a log, which is its own affair.
        """
        newest = max(one.field_id for one in subject.model.columns)
        is_free = column.field_id not in subject.follows and column.field_id != newest
        return is_free and super().may_change(subject, column)

    def _replayed(self, subject: Subject, history: RegionHistory) -> None:
        history.replayed_into({column.field_id for column in subject.model.columns})

    # Lance's own writers, which lose their regions to the gateways

    def _writer(self, subject: Subject, region: str) -> RegionWriter:
        self._drop_fenced(subject)
        writer = super()._writer(subject, region)
        place = subject.table.name, region
        self.epochs[place] = manifests.read_manifest(subject.table.path, region).writer_epoch
        return writer

    def _drop_fenced(self, subject: Subject) -> None:
        for region in list(subject.table.writers):
            epoch = manifests.read_manifest(subject.table.path, region).writer_epoch
            if epoch != self.epochs.get((subject.table.name, region), epoch):
                subject.fenced.append(subject.table.writers.pop(region))


def _target(subject: Subject) -> Target:
    return Target(subject.table.name, subject.model, subject.follows)


def _keys(gateway: Gateway, table: str, subject: Subject) -> set[Any]:
    key = ", ".join(f'"{name}"' for name in subject.table.key)
    return set(rows_of(gateway.read(f"SELECT {key} FROM {table}")))


def _by_name(subject: Subject, cells: Mapping[int, Any]) -> dict[str, Any]:
    return {one.name: cells.get(one.field_id) for one in subject.model.columns}


def _holds(entry: LoggedEntry, key: Mapping[str, Any]) -> bool:
    assert entry.rows is not None
    return tuple(key.values()) in set(rows_of(entry.rows.select(list(key))))


def _run(gateway: Gateway, table: str, drawn: Change) -> int:
    if drawn.ingested is not None:
        assert isinstance(gateway, ServedGateway)
        return gateway.ingest(table, drawn.ingested)
    if drawn.many is not None:
        return gateway.write_many(drawn.sql, drawn.many)
    return gateway.write(drawn.sql, drawn.parameters)


class _Closing:
    """Stands for all gateways where only closing them is meant."""

    def __init__(self, gateways: list[Gateway]) -> None:
        self._gateways = gateways

    def run(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        for gateway in self._gateways:
            gateway.close()
