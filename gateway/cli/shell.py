"""`lance-gateway sql`: one statement, a script from a pipe, or an interactive shell."""

import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

import pyarrow as pa
from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from pyarrow import flight

from lance_gateway.gateway.cli.client import GatewayClient, ResultReader, list_names
from lance_gateway.gateway.cli.render import Format, write
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError
from lance_gateway.protos.flight_sql import format_error

HELP = r"""
Statements end with a semicolon and may span lines; ctrl-c cancels a running one.
  \d             list tables and views
  \d NAME        show the columns of a table or view
  \dt            list tables only
  \dS            list the system's own tables
  \set           show the session options
  \set NAME TO   set one, as in: \set consistency flushed
  \timing        switch the display of times on or off
  \q             quit (or ctrl-d)
  help           this text
""".strip("\n")

# What may hold a semicolon without ending a statement, then the semicolon, then everything else.
_PIECES = re.compile(
    r"""'(?:[^']|'')*(?:'|$)|"(?:[^"]|"")*(?:"|$)|--[^\n]*|/\*.*?(?:\*/|$)|;|[^'"\-/;]+|.""", re.DOTALL
)

_FIRST_WORD = re.compile(r"(?>\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*+([A-Za-z]+)", re.DOTALL)
_DONE = MappingProxyType({"insert": "inserted", "update": "updated", "delete": "deleted"})
_LEFT_ALONE = "no longer waiting: what the statement had begun to change may be changed\n"


def split_statements(text: str) -> tuple[tuple[str, ...], str]:
    """Return the statements of `text` that end with a semicolon, without it, and the remaining text.

    >>> split_statements("SELECT ';'; SELECT 2")
    (("SELECT ';'",), 'SELECT 2')
    """
    statements: list[str] = []
    current = ""
    for piece in _PIECES.findall(text):
        if piece == ";":
            if current.strip():
                statements.append(current.strip())
            current = ""
        else:
            current += piece
    return tuple(statements), current.strip()


def is_complete(text: str) -> bool:
    """Return whether Enter runs `text`: it ends with a semicolon, is a command of the shell, or is empty."""
    stripped = text.strip()
    return not stripped or stripped.startswith("\\") or stripped == "help" or not split_statements(text)[1]


def find_history_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the shell's history, in the user's state directory."""
    state = environment.get("XDG_STATE_HOME")
    base = Path(state) if state else Path.home() / ".local" / "state"
    return base / "lance-gateway" / "history"


def format_change(statement: str, affected: int) -> str:
    """Format the outcome of a statement without a result.

    >>> told_change("INSERT INTO orders VALUES (1)", 1)
    '1 row inserted'
    >>> told_change("CREATE TABLE orders (id BIGINT)", -1)
    'done'
    """
    if affected < 0:
        return "done"
    first = _FIRST_WORD.match(statement)
    done = _DONE.get(first[1].lower() if first else "", "changed")
    return f"{affected:,} {'row' if affected == 1 else 'rows'} {done}"


class Quit(Exception):  # noqa: N818 - not an error: the user wants to leave
    """Raised by the command that leaves the shell."""


@dataclass
class Shell:
    """Runs statements and commands against one server and writes the results.

    Args:
        client: the connection.
        output: where results go.
        errors: where errors go, one line each.
        form: how results are written.
        max_rows: rows that a table shows.
        timing: whether to tell how long a statement took.
        follows: whether rows are shown as they come.
    """

    client: GatewayClient
    output: TextIO
    errors: TextIO
    form: Format = Format.TABLE
    max_rows: int = 100
    timing: bool = False
    follows: bool = False

    def execute(self, text: str) -> bool:
        """Run a command of the shell or the statements of `text`; return whether all succeeded.

        Raises:
            Quit: the text asks to leave.
            KeyboardInterrupt: the user cancelled a statement.
        """
        stripped = text.strip()
        if stripped.startswith("\\") or stripped == "help":
            return self._run_and_report(self._run_command, stripped)
        complete, rest = split_statements(text)
        statements = (*complete, rest) if rest else complete
        return all(self._run_and_report(self._run_statement, statement) for statement in statements)

    def interact(self, session: "PromptSession[str]") -> None:
        """Read and run statements until the user leaves."""
        while True:
            try:
                self.execute(session.prompt())
            except KeyboardInterrupt:
                continue
            except (EOFError, Quit):
                return

    def _run_and_report(self, run: Callable[[str], None], text: str) -> bool:
        """Run `text` and print an error on one line; return whether it succeeded."""
        try:
            run(text)
        except BrokenPipeError:
            # The reader of the output has closed it.
            raise
        except (LanceGatewayError, flight.FlightError, pa.ArrowException, OSError) as error:
            self.errors.write("error: " + " ".join(format_error(error).split()) + "\n")
            self.errors.flush()
            return False
        return True

    def _run_statement(self, statement: str) -> None:
        started = time.perf_counter()
        result = _Result(self.client, statement)
        try:
            schema = result.read_schema()
            if result.affected is None:
                batches = self._flush_each(result) if self.follows else result
                write(schema, batches, self.form, self.output, max_rows=self.max_rows)
            elif self.form is Format.TABLE:
                self.output.write(format_change(statement, result.affected) + "\n")
        except KeyboardInterrupt:
            self.errors.write("cancelled\n" if result.is_answered else _LEFT_ALONE)
            self.errors.flush()
            raise
        finally:
            result.cancel()
        if self.timing:
            self.output.write(f"Time: {(time.perf_counter() - started) * 1000:.1f} ms\n")
        self.output.flush()

    def _flush_each(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches; what was written of one is shown when the next one is asked for."""
        for batch in batches:
            yield batch
            self.output.flush()

    def _run_command(self, text: str) -> None:
        name, *arguments = text.rstrip(";").split()
        command = _COMMANDS.get((name, len(arguments)))
        if command is None:
            raise InvalidInputError(f"unknown command {text!r}: help lists them")
        command(self, *arguments)
        self.output.flush()

    def show(self, rows: pa.Table) -> None:
        """Write all of `rows` as a table."""
        write(rows.schema, rows.to_batches(), Format.TABLE, self.output, max_rows=max(1, rows.num_rows))


def _quit(_shell: Shell) -> None:
    raise Quit


def _switch_timing(shell: Shell) -> None:
    shell.timing = not shell.timing
    shell.output.write(f"Timing is {'on' if shell.timing else 'off'}.\n")


def _list_tables(shell: Shell, *kinds: str) -> None:
    rows = shell.client.list_tables(*(kinds or ("TABLE", "VIEW")))
    names = pa.array(list_names(rows), pa.string())
    shell.show(pa.table({"name": names, "type": rows.column("table_type")}))


def _list_system_tables(shell: Shell) -> None:
    names = list_names(shell.client.list_tables("SYSTEM TABLE"))
    shell.show(pa.table({"name": pa.array(names, pa.string())}))


def _describe(shell: Shell, table: str) -> None:
    schema = shell.client.read_schema(shell.client.resolve_name(table))
    types = [str(column.type) for column in schema]
    nullable = ["yes" if column.nullable else "no" for column in schema]
    shell.show(pa.table({"column": schema.names, "type": types, "nullable": nullable}))


def _show_options(shell: Shell) -> None:
    options = shell.client.get_options()
    shell.show(pa.table({"option": list(options), "value": list(options.values())}))


# The command and how many words follow it -> what runs it.
_COMMANDS: Mapping[tuple[str, int], Callable[..., object]] = MappingProxyType(
    {
        ("\\q", 0): _quit,
        ("help", 0): lambda shell: shell.output.write(HELP + "\n"),
        ("\\?", 0): lambda shell: shell.output.write(HELP + "\n"),
        ("\\timing", 0): _switch_timing,
        ("\\d", 0): _list_tables,
        ("\\dt", 0): lambda shell: _list_tables(shell, "TABLE"),
        ("\\dS", 0): _list_system_tables,
        ("\\d", 1): _describe,
        ("\\set", 0): _show_options,
        ("\\set", 2): lambda shell, name, value: shell.client.set_options({name: value}),
    }
)


class _Result:
    """The result of a statement, received by a thread of its own so that ctrl-c is heard at once."""

    def __init__(self, client: GatewayClient, statement: str) -> None:
        self._received: queue.Queue[pa.Schema | pa.RecordBatch | Exception | None] = queue.Queue(maxsize=4)
        self._reader: ResultReader | None = None
        self._cancelled = threading.Event()
        threading.Thread(target=self._receive, args=(client, statement), daemon=True).start()

    def read_schema(self) -> pa.Schema:
        """Wait for the columns of the result."""
        return self._take()

    @property
    def is_answered(self) -> bool:
        """Whether the server has begun to answer."""
        return self._reader is not None

    @property
    def affected(self) -> int | None:
        """Rows that the statement changed, -1 where that means nothing; None where it has a result."""
        return None if self._reader is None else self._reader.affected

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._take()) is not None:
            yield batch

    def cancel(self) -> None:
        """Cancel the statement at the server."""
        self._cancelled.set()
        if self._reader is not None:
            self._reader.cancel()

    def _take(self) -> pa.Schema | pa.RecordBatch | None:
        item = self._received.get()
        if isinstance(item, Exception):
            raise item
        return item

    def _receive(self, client: GatewayClient, statement: str) -> None:
        try:
            self._reader = client.query(statement)
            self._put(self._reader.schema)
            for batch in self._reader:
                self._put(batch)
                if self._cancelled.is_set():
                    return
            self._put(None)
        except Exception as error:  # noqa: BLE001 - carried to the thread that waits
            self._put(error)

    def _put(self, item: pa.Schema | pa.RecordBatch | Exception | None) -> None:
        while not self._cancelled.is_set():
            try:
                self._received.put(item, timeout=0.1)
            except queue.Full:
                continue
            return


def create_prompt_session(path: Path | None = None) -> "PromptSession[str]":
    """Create the line editor: with history in a file; Enter submits a complete statement only.

    Args:
        path: the history file, by default that of the user.
    """
    path = path if path is not None else find_history_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    keys = KeyBindings()
    session: PromptSession[str] = PromptSession(
        FormattedText([("bold", "lance> ")]),
        history=FileHistory(str(path)),
        multiline=True,
        reserve_space_for_menu=0,
        prompt_continuation=lambda width, _line, _wrapped: "...> ".rjust(width),
        key_bindings=keys,
    )

    @keys.add("enter", filter=Condition(lambda: is_complete(session.default_buffer.text)))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return session
