"""Random histories of two tables under MemWAL; after every step SQL must equal SQL on the oracle's tables."""

import datetime as dt
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA
from lance_gateway.pipeline.jobs.lake import LakeTable
from tests.oracle.answers import queries
from tests.oracle.answers.answers import Oracle
from tests.oracle.answers.predicates import Draw, value_of
from tests.oracle.replay.executors import Consistency, Executor
from tests.oracle.replay.flavours import FLAVOURS, Flavour
from tests.oracle.replay.jobs import MERGES, UPKEEP, Job, keep
from tests.oracle.replay.model import Column
from tests.oracle.replay.subject import Subject, known_to
from tests.support.judging.results import assert_same_rows, rows_of
from tests.support.lake import manifests
from tests.support.lake.merging import clean_up_merged, merge_generations
from tests.support.lake.tables import LsmTable
from tests.support.processes.writer_process import FencedError, RegionWriter, WriterProcess

ADDABLE = (pa.int32(), pa.float64(), pa.string(), pa.bool_(), pa.date32())
EXTRA_TYPES = {"b": pa.bool_(), "d": pa.date32(), "at": pa.timestamp("us"), "m": pa.decimal128(10, 2)}


class Histories(RuleBasedStateMachine):
    """Puts, deletes, flushes, crashes, fencing, merges, clean-ups, index builds and schema changes."""

    process: WriterProcess
    open_executor: Callable[[Path], Executor]
    flavours: Mapping[str, tuple[Flavour, ...]] = FLAVOURS
    more_columns: tuple[pa.Field, ...] = ()  # that every table has
    kept_columns: tuple[str, ...] = ("n", "s")  # drawn queries name them: no rule renames or drops them
    levels: tuple[Consistency, ...] = ("strong", "strong", "flushed")  # that answers are drawn at
    is_shared = False  # whether others write the tables too
    schema = MAIN_SCHEMA  # of the tables

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="histories-"))
        self.subjects: list[Subject] = []
        self.checks = 0

    @initialize(data=st.data())
    def create(self, data: Any) -> None:
        draw = data.draw
        key_kind = draw(st.sampled_from(sorted(self.flavours)), label="key")
        for name in ("t", "u"):
            self.subjects.append(self._created(draw, name, key_kind))
        self.executor = self.open_executor(self.directory)
        self.executor.schema = self.schema
        self.check(data)

    def teardown(self) -> None:
        for subject in self.subjects:
            for writer in [*subject.table.writers.values(), *subject.fenced]:
                if not writer.closed:
                    writer.abandon()
        if self.subjects:
            self.executor.close()
        # A writer that was abandoned may still finish a file of its own.
        shutil.rmtree(self.directory, ignore_errors=True)

    # Writes

    @rule(data=st.data(), count=st.integers(1, 3))
    def put(self, data: Any, count: int) -> None:
        subject = data.draw(st.sampled_from(self.subjects))
        keys = [self._key(data.draw, subject) for _ in range(count)]
        for region, part in self._by_region(subject, keys).items():
            writer = self._writer(subject, region)
            self._put(subject, region, [self._row(data.draw, subject, key, known_to(writer)) for key in part])
        self.check(data)

    @rule(data=st.data(), count=st.integers(1, 3))
    def delete(self, data: Any, count: int) -> None:
        subject = data.draw(st.sampled_from(self.subjects))
        live = sorted(subject.model.rows(), key=repr)
        known = [dict(zip(subject.table.key, key, strict=True)) for key in live]
        keys = [
            data.draw(st.sampled_from(known))
            if known and data.draw(st.booleans())
            else self._key(data.draw, subject)
            for _ in range(count)
        ]
        for region, part in self._by_region(subject, keys).items():
            acknowledged = self._writer(subject, region).delete(part)
            subject.model.write(region, part, None, acknowledged.generation, acknowledged.current_generation)
        self.check(data)

    @rule(data=st.data())
    def write_to_the_base_alone(self, data: Any) -> None:
        """An upsert that bypasses MemWAL: generation 0, older than everything fresh."""
        subject = data.draw(st.sampled_from(self.subjects))
        dataset = subject.table.dataset()
        row = self._row(data.draw, subject, self._key(data.draw, subject), subject.model.columns)
        upsert = dataset.merge_insert(list(subject.table.key)).when_matched_update_all()
        upsert.when_not_matched_insert_all().execute(pa.Table.from_pylist([row], schema=dataset.schema))
        subject.model.load([row])
        self.check(data)

    @precondition(lambda self: any(subject.model.base for subject in self.subjects))
    @rule(data=st.data())
    def append_to_the_base_alone(self, data: Any) -> None:
        """Plain Lance appends a row whose key the base table has: the newer one counts."""
        subject = data.draw(st.sampled_from([one for one in self.subjects if one.model.base]))
        key = data.draw(st.sampled_from(sorted(subject.model.base, key=repr)))
        named = dict(zip(subject.table.key, key, strict=True))
        row = self._row(data.draw, subject, named, subject.model.columns)
        dataset = subject.table.dataset()
        lance.write_dataset(pa.Table.from_pylist([row], schema=dataset.schema), dataset.uri, mode="append")
        subject.model.load([row])
        subject.has_repeated_keys = True
        self.check(data)

    # The life of writers and generations

    @rule(data=st.data())
    def flush(self, data: Any) -> None:
        """Close every writer of a table, which flushes what they hold; the next write opens them again."""
        subject = data.draw(st.sampled_from(self.subjects))
        for region, writer in subject.table.writers.items():
            if not writer.closed:
                writer.close()
                history = subject.model.region(region)
                newest = max((write.generation for write in history.writes), default=0)
                history.current_generation = max(history.current_generation, newest + 1)
        subject.table.writers.clear()
        self.check(data)

    @precondition(lambda self: any(subject.table.writers for subject in self.subjects))
    @rule(data=st.data())
    def crash_and_reopen(self, data: Any) -> None:
        subject, region = self._open_region(data)
        subject.table.writers.pop(region).abandon()
        self._writer(subject, region)
        self.check(data)

    @precondition(lambda self: any(subject.table.writers for subject in self.subjects))
    @rule(data=st.data())
    def fence(self, data: Any) -> None:
        """A second writer claims a region; what the first one then tries to write is never seen."""
        subject, region = self._open_region(data)
        first = subject.table.writers.pop(region)
        self._writer(subject, region)
        row = self._row(data.draw, subject, self._key(data.draw, subject), known_to(first))
        with pytest.raises(FencedError):
            first.put([row])
        subject.fenced.append(first)
        self.check(data)

    @rule(data=st.data(), name=st.sampled_from(sorted(MERGES)))
    def merge(self, data: Any, name: str) -> None:
        self._run_job(data, MERGES[name])

    @rule(data=st.data())
    def merge_by_hand(self, data: Any) -> None:
        """Up to any generation, by other means than ours."""
        subject = data.draw(st.sampled_from(self.subjects))
        candidates = [
            (region, write.generation)
            for region, history in sorted(subject.model.regions.items())
            for write in history.flushed()
        ]
        if candidates:
            region, up_to = data.draw(st.sampled_from(candidates))
            merge_generations(subject.table.path, region, up_to)
            subject.model.merged(region, up_to)
        self.check(data)

    @rule(data=st.data())
    def clean_up(self, data: Any) -> None:
        """Merged generations leave the region manifests and the disk, old base versions too."""
        subject = data.draw(st.sampled_from(self.subjects))
        for region in manifests.read_merged_generations(subject.table.path):
            clean_up_merged(subject.table.path, region)
        if data.draw(st.booleans()):
            dataset = subject.table.dataset()
            dataset.cleanup_old_versions(older_than=dt.timedelta(0), error_if_tagged_old_versions=False)
        self.check(data)

    @rule(data=st.data())
    def index_the_key(self, data: Any) -> None:
        subject = data.draw(st.sampled_from(self.subjects))
        dataset = subject.table.dataset()
        if any(index.name == "key_index" for index in dataset.describe_indices()):
            dataset.optimize.optimize_indices()
        else:
            dataset.create_scalar_index(subject.table.key[-1], "BTREE", name="key_index")
        self.check(data)

    @rule(data=st.data())
    def compact(self, data: Any) -> None:
        subject = data.draw(st.sampled_from(self.subjects))
        if not subject.has_repeated_keys:  # Lance's compaction may put an older row behind a newer one.
            subject.table.dataset().optimize.compact_files()
        self.check(data)

    @rule(data=st.data(), name=st.sampled_from(sorted(UPKEEP)))
    def keep_up(self, data: Any, name: str) -> None:
        self._run_job(data, UPKEEP[name])

    @rule(data=st.data())
    def keep(self, data: Any) -> None:
        """All jobs on all tables."""
        self._run_job(data, keep)

    # Schema changes

    @rule(data=st.data())
    def add_column(self, data: Any) -> None:
        subject = data.draw(st.sampled_from(self.subjects))
        dataset = subject.table.dataset()
        reused = subject.dropped.get(dataset.max_field_id + 1)
        data_type = reused or data.draw(st.sampled_from(ADDABLE))
        free = [name for name in ("w1", "w2", "s2") if name not in dataset.schema.names]
        if free:
            dataset.add_columns(pa.schema([pa.field(data.draw(st.sampled_from(free)), data_type)]))
            subject.refresh_columns()
        self.check(data)

    @rule(data=st.data())
    def rename_column(self, data: Any) -> None:
        subject = data.draw(st.sampled_from(self.subjects))
        self._change_schema(
            data,
            subject,
            lambda dataset, name: dataset.alter_columns({"path": name, "name": "x" + name[-6:]}),
        )
        self.check(data)

    @rule(data=st.data())
    def drop_column(self, data: Any) -> None:
        subject = data.draw(st.sampled_from(self.subjects))
        self._change_schema(data, subject, lambda dataset, name: dataset.drop_columns([name]))
        self.check(data)

    # Jobs

    def _run_job(self, data: Any, job: Job) -> None:
        subject = data.draw(st.sampled_from(self.subjects))
        before = {one.table.name: manifests.read_merged_generations(one.table.path) for one in self.subjects}
        job(data.draw, LakeTable.at(str(subject.table.path)))
        for one in self.subjects:
            merged = manifests.read_merged_generations(one.table.path)
            for region, history in sorted(one.model.regions.items()):
                up_to, known = merged.get(region, 0), before[one.table.name].get(region, 0)
                assert known <= up_to < history.current_generation, (region, before, merged)
                one.model.merged(region, up_to)
        self.check(data)

    # Checks

    def check(self, data: Any) -> None:
        """A full scan and a count of every table, and one drawn query, at a drawn consistency."""
        consistency: Consistency = data.draw(st.sampled_from(self.levels), label="consistency")
        drawn = queries.query(data.draw, [subject.shape() for subject in self.subjects])
        expected = {
            subject.table.name: self.shown(
                data, subject.shape(), subject.model.table(flushed_only=consistency == "flushed")
            )
            for subject in self.subjects
        }
        oracle = Oracle(expected)
        for pruning, shortcuts in self.ways():
            where = f"consistency {consistency}, pruning {pruning}, shortcuts {shortcuts}"

            def answer(
                sql: str,
                parameters: tuple[pa.Scalar, ...] = (),
                *,
                pruning: bool = pruning,
                shortcuts: str = shortcuts,
                where: str = where,
            ) -> pa.Table:
                try:
                    return self.executor.run(
                        sql, parameters, consistency=consistency, pruning=pruning, shortcuts=shortcuts
                    )
                except Exception as error:
                    raise AssertionError(f"{sql} {parameters or ''} failed; {where}") from error

            for name, table in expected.items():
                assert_same_rows(answer(f"SELECT * FROM {name}"), table, context=f"all of {name}; {where}")
                (count,) = rows_of(answer(f"SELECT count(*) FROM {name}"))
                assert count == (table.num_rows,), f"count of {name}; {where}"
            oracle.check(drawn, answer(drawn.sql, drawn.parameters), where)

    def ways(self) -> tuple[tuple[bool, str], ...]:
        """Pruning and shortcuts with which the same is asked; every third time without any shortcut."""
        self.checks += 1
        return ((True, "all"), (False, "all") if self.checks % 3 else (True, "none"))

    def expected(self, consistency: Consistency) -> dict[str, pa.Table]:
        """What the tables hold."""
        return {
            subject.table.name: subject.model.table(flushed_only=consistency == "flushed")
            for subject in self.subjects
        }

    def shown(self, data: Any, shape: queries.Table, rows: pa.Table) -> pa.Table:
        """Of the rows of a table, what whoever asks may see."""
        return rows

    # Pieces

    def _created(self, draw: Draw, name: str, key_kind: str) -> Subject:
        flavour: Flavour = draw(st.sampled_from(self.flavours[key_kind]), label="flavour")
        key = flavour.key
        extra = draw(
            st.lists(st.sampled_from(sorted(EXTRA_TYPES)), unique=True, max_size=2), label="extra columns"
        )
        values = [("n", pa.int32()), ("f", pa.float64()), ("s", pa.string())]
        values += [(column, EXTRA_TYPES[column]) for column in extra]
        values += [(column, pa.date32()) for column in flavour.follows]
        fields = [pa.field(column, data_type) for column, data_type in values]
        schema = pa.schema([*key, *fields, *self.more_columns])
        rows: dict[str, dict[str, Any]] = {}
        for _ in range(draw(st.integers(0, 8), label="base rows")):
            row = {
                column.name: self.cell(draw, column.name, column.type, nullable=column.nullable)
                for column in schema
            }
            row |= {name: compute(row) for name, compute in flavour.follows.items()}
            rows[repr([row[column.name] for column in key])] = row
        base = pa.Table.from_pylist(list(rows.values()), schema=schema)
        limit = draw(st.sampled_from((3, 7, 100)), label="max_memtable_rows")
        stable = self.has_stable_row_ids(draw)
        table = LsmTable.create(
            self.directory / ("" if self.schema == MAIN_SCHEMA else self.schema),
            name,
            base,
            flavour.layout,
            self.process,
            max_memtable_rows=limit,
            stable_row_ids=stable,
        )
        table.is_shared = self.is_shared
        if draw(st.booleans(), label="key index"):
            table.dataset().create_scalar_index(table.key[-1], "BTREE", name="key_index")
        return Subject(table, base, flavour)

    def has_stable_row_ids(self, draw: Draw) -> bool:
        """Whether rows of a new table keep their ids when they move."""
        return False

    def _key(self, draw: Draw, subject: Subject) -> dict[str, Any]:
        types = {column.name: column.type for column in subject.model.columns}
        return {name: value_of(draw, types[name]) for name in subject.table.key}

    def _row(
        self, draw: Draw, subject: Subject, key: dict[str, Any], columns: tuple[Column, ...]
    ) -> dict[str, Any]:
        """A row of ``key`` with drawn values in the other columns."""
        cells = {}
        for column in columns:
            if column.field_id in subject.follows:
                cells[column.name] = subject.follows[column.field_id](key)
            elif column.name not in key:
                cells[column.name] = self.cell(draw, column.name, column.type, nullable=True)
        return key | cells

    def cell(self, draw: Draw, column: str, data_type: pa.DataType, *, nullable: bool) -> Any:
        """A value for a column."""
        return value_of(draw, data_type, nullable=nullable)

    def _by_region(self, subject: Subject, keys: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        parts: dict[str, list[dict[str, Any]]] = {}
        for key in keys:
            parts.setdefault(subject.table.region_of(key), []).append(key)
        return parts

    def _put(self, subject: Subject, region: str, rows: list[dict[str, Any]]) -> None:
        writer = self._writer(subject, region)
        done = writer.put(rows)
        subject.model.write(region, rows, writer.field_ids, done.generation, done.current_generation)

    def _writer(self, subject: Subject, region: str) -> RegionWriter:
        known = subject.table.writers.get(region)
        writer = subject.table.writer(region)
        if writer is not known:
            subject.opened(region, writer)
        return writer

    def _open_region(self, data: Any) -> tuple[Subject, str]:
        subject = data.draw(st.sampled_from([subject for subject in self.subjects if subject.table.writers]))
        return subject, data.draw(st.sampled_from(sorted(subject.table.writers)))

    def may_change(self, subject: Subject, column: Column) -> bool:
        """Whether a column may be renamed and dropped."""
        return column.name not in (*subject.table.key, *self.kept_columns)

    def _change_schema(
        self, data: Any, subject: Subject, change: Callable[[lance.LanceDataset, str], None]
    ) -> None:
        """Change a drawn column."""
        names = [column.name for column in subject.model.columns if self.may_change(subject, column)]
        if names:
            change(subject.table.dataset(), data.draw(st.sampled_from(names)))
            subject.refresh_columns()
