"""Other engines over the same rows: PostgreSQL as a server of its own, and DuckDB."""

import json
import os
import pwd
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tests.fuzz.typed.answers import read_json
from tests.fuzz.typed.lake import KEY, Column
from tests.fuzz.typed.types import format_moment

Answer = dict[int, list[Any]]
"""The values of each row, by its key."""


class RefusedError(Exception):
    """An engine does not answer; the text is its own."""


def find_postgres() -> Path | None:
    """Return the directory of PostgreSQL's programs, if they are installed."""
    found = shutil.which("pg_ctl")
    places = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((one for one in reversed(places) if (one / "initdb").exists()), None)


_SETTINGS = (
    "listen_addresses=", "fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=32MB",
    "timezone=UTC", "autovacuum=off",
)  # fmt: skip
_SESSION = (
    "SET timezone = 'UTC'; SET statement_timeout = '10s'; SET client_min_messages = error; "
    "SET extra_float_digits = 1;"
)
_END = "-- end of the answer --"


class Postgres:
    """A session of a server that listens on a socket in its own directory."""

    name = "postgres"

    def __init__(self, programs: Path, directory: Path, user: str | None) -> None:
        self._child = subprocess.Popen(
            [programs / "psql", "-XqAt", "-h", directory, "-d", "postgres"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, user=user,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        self._ask(_SESSION)

    def set_rows(self, columns: Sequence[Column], rows: pa.Table) -> None:
        """Hold these rows as table `t`, without the columns of types that it lacks."""
        held = [one for one in columns if one.type.postgres is not None]
        self._ask(
            "DROP TABLE IF EXISTS t; DROP TYPE IF EXISTS struct_t, item_t;"
            "CREATE TYPE struct_t AS (a bigint, b text, d numeric(10, 2), at timestamp);"
            "CREATE TYPE item_t AS (sku text, price numeric(10, 2));"
            f"CREATE TABLE t ({KEY} bigint, {', '.join(f'{one.name} {one.type.postgres}' for one in held)});"
        )
        lists = {one.name: to_json(rows.column(one.name).combine_chunks()) for one in held}
        for one in held:
            if one.type.group == "json":
                lists[one.name] = [None if text is None else json.loads(text) for text in lists[one.name]]
        objects = [
            {KEY: key, **{name: values[index] for name, values in lists.items()}}
            for index, key in enumerate(rows.column(KEY).to_pylist())
        ]
        text = json.dumps(objects, separators=(",", ":")).replace("'", "''")
        self._ask(f"INSERT INTO t SELECT * FROM json_populate_recordset(NULL::t, '{text}');")

    def answer(self, expressions: Sequence[str]) -> Answer:
        """Return the expressions' values of each row, as JSON has them.

        Raises:
            RefusedError: one of them is refused.
        """
        outputs = ", ".join(f"{text} AS c{index}" for index, text in enumerate(expressions))
        lines = self._ask(f"SELECT row_to_json(r) FROM (SELECT {KEY}, {outputs} FROM t) r;")
        rows = [read_json(line) for line in lines]
        return {row[KEY]: [row[f"c{index}"] for index in range(len(expressions))] for row in rows}

    def constant(self, text: str) -> Any:
        """Return the value of an expression without columns."""
        (line,) = self._ask(f"SELECT row_to_json(r) FROM (SELECT {text} AS c0) r;")
        return read_json(line)["c0"]

    def _ask(self, sql: str) -> list[str]:
        stdin, stdout = self._child.stdin, self._child.stdout
        assert stdin is not None
        assert stdout is not None
        # A statement on a line of its own: psql reads a quote that is not closed to the end otherwise.
        stdin.write(f"{sql}\n\\echo {_END}\n")
        stdin.flush()
        lines = []
        for line in stdout:
            if line.rstrip("\n").endswith(_END):
                break
            lines.append(line.rstrip("\n"))
        else:
            raise RuntimeError(f"psql ended: {lines}")
        if any(line.startswith("ERROR:") for line in lines):
            raise RefusedError("\n".join(lines))
        return lines

    def close(self) -> None:
        """End the session."""
        self._child.communicate("\\q\n")


@contextmanager
def serve_postgres(programs: Path) -> Iterator[Postgres]:
    """Start a server with a data folder of its own, which goes with it."""
    # The server does not run as the superuser of the machine.
    user = None
    if os.getuid() == 0:
        names = {one.pw_name for one in pwd.getpwall()}
        user = "postgres" if "postgres" in names else "nobody"
    directory = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # sockets have short names
    if user is not None:
        shutil.chown(directory, user)

    def run(program: str, *arguments: object) -> None:
        command = [programs / program, *map(str, arguments)]
        subprocess.run(command, check=True, user=user, cwd=directory, stdout=subprocess.DEVNULL)

    options = " ".join(f"-c {one}" for one in _SETTINGS)
    try:
        run("initdb", "-D", directory / "data", "-A", "trust", "-N", "--locale=C.UTF-8", "-E", "UTF8")
        run(
            "pg_ctl",
            "-D",
            directory / "data",
            "-w",
            "-l",
            directory / "log",
            "-o",
            f"{options} -k {directory}",
            "start",
        )
        session = Postgres(programs, directory, user)
        try:
            yield session
        finally:
            session.close()
            run("pg_ctl", "-D", directory / "data", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def to_json(array: pa.Array) -> list[Any]:
    """Return the values as texts that PostgreSQL reads; nested ones as objects and lists."""
    arrow = array.type
    if pa.types.is_dictionary(arrow):
        return to_json(array.dictionary_decode())
    if pa.types.is_timestamp(arrow):
        numbers = array.cast(pa.int64()).to_pylist()
        return [None if one is None else format_moment(one, arrow) for one in numbers]
    if pa.types.is_struct(arrow):
        fields = {one.name: to_json(array.field(one.name)) for one in arrow}
        return [
            {name: values[index] for name, values in fields.items()} if one.is_valid else None
            for index, one in enumerate(array)
        ]
    if pa.types.is_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return [to_json(one.values) if one.is_valid else None for one in array]
    return [_json(one) for one in array.to_pylist()]


def _json(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    return "\\x" + value.hex() if isinstance(value, bytes) else str(value)


class Duck:
    """DuckDB in this process."""

    name = "duckdb"

    def __init__(self) -> None:
        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1; SET TimeZone = 'UTC'")

    def set_rows(self, columns: Sequence[Column], rows: pa.Table) -> None:
        held = rows.select([KEY, *(one.name for one in columns if one.type.duckdb)])
        self._connection.register("incoming", held)
        self._connection.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM incoming")
        self._connection.unregister("incoming")

    def answer(self, expressions: Sequence[str]) -> pa.Table:
        """Return the expressions' values of each row, with the key before them.

        Raises:
            RefusedError: one of them is refused.
        """
        outputs = ", ".join(f"{text} AS c{index}" for index, text in enumerate(expressions))
        return self.query(f"SELECT {KEY}, {outputs} FROM t")

    def query(self, sql: str) -> pa.Table:
        """Return the rows of a statement."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self._connection.execute(sql).to_arrow_table()
        except duckdb.Error as error:
            raise RefusedError(str(error)) from error

    def close(self) -> None:
        self._connection.close()


Judges = Mapping[str, Postgres | Duck]
