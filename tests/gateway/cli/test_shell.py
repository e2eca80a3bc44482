"""`lance-gateway sql`: one statement, a script, and the interactive shell."""

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from lance_gateway.gateway.cli.client import GatewayClient
from lance_gateway.gateway.cli.render import Format, write
from lance_gateway.gateway.cli.shell import (
    Quit,
    Shell,
    create_prompt_session,
    find_history_path,
    is_complete,
    split_statements,
)
from lance_gateway.memwal.errors import InvalidInputError, NotFoundError
from lance_gateway.memwal.storage.table_names import TableName
from tests.gateway.conftest import serving

PROGRAM = str(Path(sys.executable).with_name("lance-gateway"))


@pytest.fixture
def shell(uri: str) -> Iterator[Shell]:
    """A shell whose output and errors are kept."""
    with GatewayClient(uri) as client:
        yield Shell(client, io.StringIO(), io.StringIO())


def _said(shell: Shell) -> str:
    assert isinstance(shell.output, io.StringIO)
    return shell.output.getvalue()


def _complained(shell: Shell) -> str:
    assert isinstance(shell.errors, io.StringIO)
    return shell.errors.getvalue()


def run(uri: str, *arguments: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    command = [PROGRAM, "sql", "--uri", uri, *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("", (), ""),
        ("SELECT 1", (), "SELECT 1"),
        ("SELECT 1;", ("SELECT 1",), ""),
        ("SELECT 1; SELECT 2", ("SELECT 1",), "SELECT 2"),
        (";;", (), ""),
        ("SELECT ';'", (), "SELECT ';'"),
        ("SELECT 'it''s;';", ("SELECT 'it''s;'",), ""),
        ('SELECT 1 AS ";";', ('SELECT 1 AS ";"',), ""),
        ("SELECT 1 -- no; end\n;", ("SELECT 1 -- no; end",), ""),
        ("SELECT /* ; */ 1 - 1 / 1;", ("SELECT /* ; */ 1 - 1 / 1",), ""),
        ("SELECT 'open;", (), "SELECT 'open;"),
    ],
)
def test_statements_end_with_a_semicolon_outside_of_quotes(
    text: str, statements: tuple[str, ...], rest: str
) -> None:
    assert split_statements(text) == (statements, rest)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT ';", False),
        (r"\d", True),
        ("help", True),
    ],
)
def test_enter_runs_what_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_a_result_is_a_table_with_visible_nulls(shell: Shell) -> None:
    assert shell.execute("SELECT id, customer, amount FROM orders WHERE id IN (8, 9) ORDER BY id")
    lines = [line.split() for line in _said(shell).splitlines()]
    assert lines[0] == ["id", "customer", "amount"]
    assert ["8", "customer", "1", "4.0"] in lines
    assert ["9", "customer", "2", "NULL"] in lines
    assert ["(2", "rows)"] in lines


def test_a_long_result_is_cut_and_counted(shell: Shell) -> None:
    shell.max_rows = 3
    assert shell.execute("SELECT id FROM orders ORDER BY id;")
    assert _said(shell).splitlines()[-1] == "(1,000 rows, the first 3 shown)"
    assert [line.strip() for line in _said(shell).splitlines()[2:5]] == ["0", "1", "2"]


def test_an_error_is_one_line_and_ends_a_script(shell: Shell) -> None:
    assert not shell.execute("SELECT 1 AS one; SELECT * FROM nowhere; SELECT 2 AS two;")
    (line,) = _complained(shell).splitlines()
    assert line.startswith("error: ")
    assert "nowhere" in line
    assert "Detail" not in line
    assert "one" in _said(shell)
    assert "two" not in _said(shell)


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Shell]:
    """A shell on a gateway over an empty root."""
    with serving(tmp_path) as server, GatewayClient(f"grpc://127.0.0.1:{server.port}") as client:
        yield Shell(client, io.StringIO(), io.StringIO())


def test_what_a_statement_has_changed_is_told(writing: Shell) -> None:
    script = """
        CREATE TABLE notes (id BIGINT PRIMARY KEY, text VARCHAR);
        INSERT INTO notes VALUES (1, 'a'), (2, 'b'), (3, 'c');
        /* one */ update notes SET text = 'B' WHERE id = 2;
        DELETE FROM notes WHERE id > 9;
        INSERT INTO notes VALUES (4, 'd') RETURNING id
    """
    assert writing.execute(script), _complained(writing)
    told = [line.strip() for line in _said(writing).splitlines() if line.strip()]
    assert told[:4] == ["done", "3 rows inserted", "1 row updated", "0 rows deleted"]
    assert told[4] == "id"
    assert told[6:] == ["4", "(1 row)"]


def test_other_formats_say_nothing_of_what_was_changed(writing: Shell) -> None:
    writing.form = Format.JSON
    assert writing.execute("CREATE TABLE notes (id BIGINT PRIMARY KEY); INSERT INTO notes VALUES (1)")
    assert _said(writing) == ""


def test_the_client_executes_and_counts(writing: Shell) -> None:
    client = writing.client
    assert client.execute("CREATE TABLE notes (id BIGINT PRIMARY KEY)") == 0
    assert client.execute("INSERT INTO notes VALUES (1), (2)") == 2
    assert client.query("SELECT count(*) AS n FROM notes").read_all().to_pydict() == {"n": [2]}
    assert client.query("INSERT INTO notes VALUES (3)").affected == 1
    with pytest.raises(pa.ArrowInvalid, match="execute it as a query"):
        client.execute("SELECT 1")


def test_commands_list_tables_and_columns(shell: Shell) -> None:
    shell.execute(r"\d")
    shell.execute(r"\dt")
    listed, only_tables = _said(shell).split("rows)")[:2]
    assert "big_orders" in listed
    assert "VIEW" in listed
    assert "big_orders" not in only_tables
    assert "queries" not in listed
    shell.execute(r"\dS")
    assert "system.queries" in _said(shell)
    assert "information_schema.columns" in _said(shell)
    shell.execute(r"\d orders")
    lines = [line.split() for line in _said(shell).splitlines()]
    assert ["id", "int64", "no"] in lines
    assert ["amount", "double", "yes"] in lines
    shell.execute(r"\d system.queries")
    assert any(line.split()[:1] == ["state"] for line in _said(shell).splitlines())


def test_options_are_shown_and_set(shell: Shell) -> None:
    assert shell.execute(r"\set consistency flushed")
    assert shell.execute(r"\set")
    assert ["consistency", "flushed"] in [line.split() for line in _said(shell).splitlines()]
    assert not shell.execute(r"\set consistency never")
    assert "consistency = 'never': invalid value" in _complained(shell)


def test_times_are_shown_on_demand(shell: Shell) -> None:
    shell.execute(r"\timing")
    shell.execute("SELECT 1;")
    assert "Timing is on." in _said(shell)
    assert _said(shell).splitlines()[-1].startswith("Time: ")


def test_help_names_every_command(shell: Shell) -> None:
    assert shell.execute("help")
    for command in (r"\d", r"\dt", r"\set", r"\timing", r"\q"):
        assert command in _said(shell)


def test_an_unknown_command_or_table_is_named(shell: Shell) -> None:
    assert not shell.execute(r"\dx")
    assert not shell.execute(r"\d nowhere")
    first, second = _complained(shell).splitlines()
    assert r"'\\dx'" in first
    assert "'nowhere'" in second
    assert "orders" in second


def test_a_quit_leaves(shell: Shell) -> None:
    with pytest.raises(Quit):
        shell.execute(r"\q")


def test_the_history_is_kept_in_the_state_directory() -> None:
    assert find_history_path({"XDG_STATE_HOME": "/state"}) == Path("/state/lance-gateway/history")
    assert find_history_path({}) == Path.home() / ".local/state/lance-gateway/history"


def _typed(keys: str, history: Path, shell: Shell) -> None:
    """Lets `keys` be typed into the interactive shell until it ends."""
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text(keys)
        shell.interact(create_prompt_session(history))


def test_a_statement_may_span_lines_and_is_remembered(shell: Shell, tmp_path: Path) -> None:
    history = tmp_path / "state" / "history"
    _typed("SELECT 40 +\r2 AS answer;\r\\q\r", history, shell)
    assert "42" in _said(shell)
    assert _complained(shell) == ""
    assert "SELECT 40 +" in history.read_text()


def test_ctrl_c_at_the_prompt_drops_the_line_and_ctrl_d_leaves(shell: Shell, tmp_path: Path) -> None:
    _typed("SELECT 'wrong'\x03SELECT 'right' AS a;\r\x04", tmp_path / "history", shell)
    assert "right" in _said(shell)
    assert "wrong" not in _said(shell)


def test_ctrl_c_cancels_a_running_statement(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    received = []

    def interrupted(_schema: Any, batches: Any, *_: Any, **__: Any) -> None:
        received.append(next(iter(batches)))
        raise KeyboardInterrupt

    monkeypatch.setattr("lance_gateway.gateway.cli.shell.write", interrupted)
    endless = "SELECT value FROM generate_series(1, 100000000000)"
    with pytest.raises(KeyboardInterrupt):
        shell.execute(endless)
    assert received
    assert _complained(shell) == "cancelled\n"
    monkeypatch.undo()
    assert shell.execute("SELECT 1 AS one")
    assert "one" in _said(shell)


ROWS = pa.table(
    {
        "a": pa.array([1, None], pa.int64()),
        "b": ["x, y", None],
        "c": pa.array([[1, 2], None], pa.list_(pa.int64())),
        "d": pa.array([b"\x01", None], pa.binary()),
    }
)


def _written(form: Format, rows: pa.Table) -> str:
    output = io.StringIO()
    assert write(rows.schema, rows.to_batches(), form, output) == rows.num_rows
    return output.getvalue()


def test_csv_quotes_and_leaves_nulls_empty() -> None:
    assert _written(Format.CSV, ROWS) == '"a","b","c","d"\n1,"x, y","[1, 2]","0x01"\n,,,\n'
    assert _written(Format.CSV, ROWS.slice(0, 0)) == '"a","b","c","d"\n'


def test_json_is_an_object_a_line() -> None:
    lines = [json.loads(line) for line in _written(Format.JSON, ROWS).splitlines()]
    assert lines == [{"a": 1, "b": "x, y", "c": [1, 2], "d": "AQ=="}, dict.fromkeys("abcd")]


def test_a_table_shows_values_as_they_are_and_columns_of_the_same_name() -> None:
    rows = pa.Table.from_arrays([pa.array([True]), pa.array(["[bold]"])], names=["a", "a"])
    assert _written(Format.TABLE, rows).splitlines()[2].split() == ["true", "[bold]"]


@pytest.mark.slow
def test_arrow_is_a_stream_of_batches(uri: str) -> None:
    command = [PROGRAM, "sql", "--uri", uri, "--format", "arrow", "SELECT id FROM orders"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert pa.ipc.open_stream(done.stdout).read_all().num_rows == 1000


@pytest.mark.slow
def test_the_command_prints_a_statement(uri: str) -> None:
    done = run(uri, "SELECT count(*) AS n FROM orders", "--consistency", "snapshot", "--shortcuts", "none")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1000" in done.stdout


@pytest.mark.slow
def test_the_command_runs_a_script_from_a_pipe(uri: str) -> None:
    done = run(uri, "--format", "csv", text="SELECT 1 AS a;\nSELECT 2 AS b;\n")
    assert (done.returncode, done.stdout) == (0, '"a"\n1\n"b"\n2\n')


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("SELECT * FROM nowhere",), "nowhere"),
        (("SELECT 1", "--consistency", "never"), "consistency = 'never'"),
        (("SELECT 1", "--uri", "http://localhost"), "'http://localhost' is not an address"),
        (("SELECT 1", "--uri", "grpc://127.0.0.1:1"), "127.0.0.1:1"),
    ],
)
def test_the_command_fails_with_one_line(uri: str, arguments: tuple[str, ...], said: str) -> None:
    done = run(uri, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert said in line


@pytest.mark.slow
def test_the_client_does_not_load_the_engine() -> None:
    script = "import sys, lance_gateway.gateway.cli.shell; print({'lance', 'datafusion'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.slow
def test_on_a_terminal_the_command_is_a_shell(uri: str, tmp_path: Path) -> None:
    here, there = pty.openpty()
    # The line editor draws nothing on a terminal without size.
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "xterm"}
    command = [PROGRAM, "sql", "--uri", uri]
    process = subprocess.Popen(command, stdin=there, stdout=there, stderr=there, env=environment)
    os.close(there)
    try:
        _shown_until(here, b"lance>")
        os.write(here, b"SELECT 40 + 2 AS answer;\r")
        shown = _shown_until(here, b"Time: ")
        os.write(here, b"\\q\r")
        _shown_until(here, None)
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()
        os.close(here)
    assert b"42" in shown
    assert (tmp_path / "lance-gateway" / "history").exists()


def _shown_until(terminal: int, text: bytes | None) -> bytes:
    """Reads what the terminal shows until `text`, or until the program has left."""
    shown = b""
    while text is None or text not in shown:
        try:
            received = os.read(terminal, 4096)
        except OSError:
            received = b""
        if not received:
            assert text is None, shown
            break
        # The line editor asks where the cursor is.
        if b"\x1b[6n" in received:
            os.write(terminal, b"\x1b[1;1R")
        shown += received
    return shown


def test_the_client_refuses_an_address_that_is_none() -> None:
    with pytest.raises(InvalidInputError, match="must look like grpc://"):
        GatewayClient("127.0.0.1:31337")


def test_the_client_names_the_tables_there_are(uri: str) -> None:
    with GatewayClient(uri) as client, pytest.raises(NotFoundError, match=r"'nowhere'.*orders"):
        client.read_schema(TableName("nowhere"))


def test_tables_of_schemas_are_listed_and_described(tmp_path: Path) -> None:
    for schema, column in (("", "a"), ("sales", "b")):
        lance.write_dataset(pa.table({column: [1]}), tmp_path / schema / "t.lance")
    with serving(tmp_path) as server, GatewayClient(f"grpc://127.0.0.1:{server.port}") as client:
        shell = Shell(client, io.StringIO(), io.StringIO())
        shell.execute(r"\dt")
        assert "sales.t" in _said(shell)
        for line, shown in ((r"\d sales.t", "b"), (r"\d t", "a"), (r"\set schema sales", ""), (r"\d t", "b")):
            shell.output = io.StringIO()
            shell.execute(line)
            assert shown in _said(shell), (line, _complained(shell))
