"""Examples of documentation pages, and a reader who follows a page from its first line to its last."""

import doctest
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.processes.ports import find_free_port

DOCS = Path(__file__).parents[3] / "docs"
# What makes the tables that docs/clients.md reads.
SHOP = (
    """CREATE TABLE orders (id BIGINT PRIMARY KEY, customer_id BIGINT, status VARCHAR, amount DOUBLE)
       WITH (region_by = 'bucket(id, 4)')""",
    "INSERT INTO orders VALUES (42, 1, 'paid', 250.0), (43, 1, 'open', 50.0), (44, 2, 'paid', 150.0)",
    "CREATE TABLE products (id BIGINT PRIMARY KEY, embedding FLOAT[2])",
    "INSERT INTO products VALUES (1, [0.0, 1.0]), (2, [1.0, 0.0])",
)
# A block, or a heading: what looks like a heading in a block is none.
_PART = re.compile(r"^```(\w*)\n(.*?)^```$|^(#+ .*?)$", re.DOTALL | re.MULTILINE)
_PATIENCE_SECONDS = 120
# One interpreter runs all Python blocks of a page. After each it prints one of these lines.
_DONE = "the block is done"
_FAILED = "the block failed"
_INTERPRETER = f"""
import sys, traceback
names = {{"__name__": "__main__"}}
while length := sys.stdin.readline():
    try:
        exec(compile(sys.stdin.read(int(length)), "the page", "exec"), names)
        print({_DONE!r}, flush=True)
    except Exception:
        traceback.print_exc(file=sys.stdout)
        print({_FAILED!r}, flush=True)
"""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int


def read_blocks(page: Path, section: str | None = None, until: str | None = None) -> tuple[Block, ...]:
    """Return the fenced blocks of a page, or of one of its sections, in their order.

    Args:
        page: in Markdown.
        section: heading, such as "## Go"; it ends at the next heading that is no deeper.
        until: heading of a deeper section that ends it sooner.

    Raises:
        ValueError: the page has no such section.
    """
    text = page.read_text()
    depth = 0 if section is None else section.index(" ")
    inside, found, blocks = section is None, section is None, []
    for part in _PART.finditer(text):
        language, block, heading = part.groups()
        if heading is None:
            if inside:
                blocks.append(Block(language, block, text.count("\n", 0, part.start()) + 1))
        elif heading == section:
            inside = found = True
        elif heading == until or heading.index(" ") <= depth:
            inside = False
    if not found:
        raise ValueError(f"{page} has no section {section!r}")
    return tuple(blocks)


def read_block(page: Path, section: str, language: str) -> Block:
    """Return the one block of a section that is in a language.

    Raises:
        ValueError: there is none, or there are several.
    """
    [block] = [block for block in read_blocks(page, section) if block.language == language]
    return block


@dataclass
class Reader:
    """Runs the blocks of a page in an empty directory.

    `bash` blocks run there; one that begins with `lance-gateway serve` is a gateway, which the next such
    block replaces. `sql` blocks go to `lance-gateway sql`, `python` blocks to one interpreter. A `text` block
    is what the block before it prints; `...` in it stands for anything. Other blocks are for the eyes. The
    gateway's usual ports are replaced by free ones.
    """

    directory: Path
    _port: int = field(default_factory=find_free_port)
    _http_port: int = field(default_factory=find_free_port)
    _gateway: subprocess.Popen[str] | None = None
    _python: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._python is not None:
                self._python.communicate(timeout=_PATIENCE_SECONDS)
        finally:
            self._stop_gateway()

    def follow(self, page: Path) -> None:
        """Run a page.

        Raises:
            AssertionError: a block failed, or printed something else than the page shows; names the line.
        """
        printed = ""
        for block in read_blocks(page):
            where = f"{page.name}, line {block.line}"
            if block.language == "text":
                self._compare(where, block.text, printed)
            elif block.language in ("bash", "sql", "python"):
                printed = self._run(where, block)

    def _run(self, where: str, block: Block) -> str:
        text = block.text.replace("31337", str(self._port)).replace("31338", str(self._http_port))
        if text.startswith("lance-gateway serve"):
            return self._serve(where, text)
        if block.language == "python":
            return self._interpret(where, text)
        shell = ["bash", "-euo", "pipefail", "-c", text]
        client = ["lance-gateway", "sql", "--uri", f"grpc://127.0.0.1:{self._port}"]
        done = subprocess.run(
            client if block.language == "sql" else shell,
            input=text if block.language == "sql" else "",
            cwd=self.directory,
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{where}: {done.stdout}{done.stderr}"
        return done.stdout

    def _serve(self, where: str, command: str) -> str:
        """Start a gateway in the place of the one before; return the line that it prints."""
        self._stop_gateway()
        ports = f"--port {self._port} --http-port {self._http_port}"
        with (self.directory / "gateway.log").open("a") as log:
            self._gateway = subprocess.Popen(
                ["bash", "-c", f"exec {command.strip()} {ports}"],
                cwd=self.directory,
                env=_environment(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._gateway.stdout is not None
        line = self._gateway.stdout.readline()
        assert line, f"{where}: {(self.directory / 'gateway.log').read_text()}"
        return line

    def _stop_gateway(self) -> None:
        if self._gateway is not None:
            self._gateway.terminate()
            self._gateway.communicate(timeout=_PATIENCE_SECONDS)
            self._gateway = None

    def _interpret(self, where: str, text: str) -> str:
        if self._python is None:
            self._python = subprocess.Popen(
                [sys.executable, "-c", _INTERPRETER],
                cwd=self.directory,
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        self._python.stdin.write(f"{len(text)}\n{text}")
        self._python.stdin.flush()
        printed = ""
        for line in self._python.stdout:
            if line == f"{_DONE}\n":
                return printed
            if line == f"{_FAILED}\n":
                break
            printed += line
        raise AssertionError(f"{where}: {printed}")

    def _compare(self, where: str, expected: str, printed: str) -> None:
        shown = printed.replace(str(self._port), "31337").replace(str(self._http_port), "31338")
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        same = doctest.OutputChecker().check_output(expected, shown, flags)
        assert same, f"{where}: the page shows\n{expected}\nand it printed\n{shown}"


def _environment() -> dict[str, str]:
    """Return an environment in which `python` and `lance-gateway` are those of the tests.

    Gateways run statements in their front process, so that they start sooner.
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "COLUMNS": "120", "LANCE_GATEWAY_SERVER__WORKERS": "0"}
