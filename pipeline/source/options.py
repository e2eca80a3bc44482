"""Options of the data source, and the SQL that is sent to the gateway."""

from __future__ import annotations

import csv
import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, TypeAlias, cast

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.storage.table_names import split_name

Mode: TypeAlias = Literal["gateway", "direct"]
MODES: tuple[Mode, ...] = ("gateway", "direct")
ChangesMode: TypeAlias = Literal["net", "all"]
CHANGES_MODES: tuple[ChangesMode, ...] = ("net", "all")
DEFAULT_URL = "grpc://127.0.0.1:31337"
MAX_ENDPOINTS = 4096
DEFAULT_CACHE_BYTES = 256 << 20
DEFAULT_PART_ROWS = 200_000
_STORAGE = "storage."
_NAME_OF_STATE = re.compile(r"[^\s'()]+")
"""Tags and tokens; expressions that give a time have blanks, quotes or brackets."""
_URL = re.compile(r"grpc(\+tcp|\+tls)?://[^/@\s]+:\d+/?")
_READING = (
    "query",
    "columns",
    "changes",
    "since",
    "until",
    "endpoints",
    "part_rows",
    "consistency",
    "max_staleness_ms",
    "dialect",
    "mode",
    "root",
    "cache_bytes",
)
_WRITING = ("at_least_once",)
_SHARED = (
    "url",
    "table",
    "path",
    "user",
    "password",
    "token",
    "tls_ca",
    "tls_certificate",
    "tls_key",
    "timeout",
    "retries",
)
NAMES = (*_SHARED, *_READING, *_WRITING)
_OF_SPARK = ("checkpointlocation", "queryname")
"""Options that Spark adds for a stream."""
_DIRECT_ONLY = ("root", "cache_bytes")


@dataclass(frozen=True, slots=True)
class Login:
    """Who connects, and whom they trust; what is not here is looked for in the environment.

    Attributes:
        user: name, with a password.
        password: of the user; without one, LANCE_GATEWAY_PASSWORD of the process that connects.
        token: in place of a user; without either, LANCE_GATEWAY_TOKEN of the process that connects.
        tls_ca: PEM file of the authorities that may have signed the server's certificate.
        tls_certificate: PEM file of the client's certificate, with `tls_key`.
        tls_key: PEM file of its private key.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None

    def __post_init__(self) -> None:
        if self.user is not None and self.token is not None:
            raise InvalidInputError("options user and token contradict each other: choose one way to log in")
        if self.user is None and self.password is not None:
            raise InvalidInputError("option password needs the option user beside it")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise InvalidInputError("options tls_certificate and tls_key belong together: give both")

    @property
    def needs_tls(self) -> bool:
        """Whether part of it has a meaning with TLS only."""
        return self.tls_ca is not None or self.tls_certificate is not None

    def secret(self) -> tuple[str | None, str | None]:
        """The password and the token, from where they are.

        Raises:
            InvalidInputError: a user has no password.
        """
        if self.user is not None:
            password = self.password or os.environ.get("LANCE_GATEWAY_PASSWORD")
            if password is None:
                raise InvalidInputError(
                    f"user {self.user!r} has no password: give the option password, or set "
                    "LANCE_GATEWAY_PASSWORD where Spark's driver and executors run"
                )
            return password, None
        return None, self.token or os.environ.get("LANCE_GATEWAY_TOKEN")


@dataclass(frozen=True, slots=True)
class Options:
    """All options of one read or write.

    Attributes:
        urls: gateways over one root; the first that answers plans, and parts are spread over all.
        login: to each of them.
        table: name of a table or view, with its schema or without; None where there is a query.
        query: a statement that only reads; None where there is a table.
        columns: that are read, in this order; empty for all.
        changes: whether changes of the table are read in place of its rows: net ones, or every single one.
        since: the state from which changes are told, as SQL; None where there are none.
        until: the state up to which they are, as SQL; None for now.
        part: which part of the changes is read, by their keys, and of how many; None for all of them.
        endpoints: into how many partitions a scan, or changes, are divided, at most.
        part_rows: of changes, how many rows each partition compares at least.
        settings: of the gateway's session, by name.
        mode: who reads the files.
        root: of the tables, for the direct mode.
        storage: options of the object store, for the direct mode.
        cache_bytes: of one Python worker, for the direct mode.
        timeout_seconds: of one call, the reading of a partition too; None for as long as it takes.
        retries: of a call that the gateway could not take, beside the first attempt.
        at_least_once: whether tables without a primary key are written, where a repeated task repeats rows.
    """

    urls: tuple[str, ...]
    login: Login
    table: str | None = None
    query: str | None = None
    columns: tuple[str, ...] = ()
    changes: ChangesMode | None = None
    since: str | None = None
    until: str | None = None
    part: tuple[int, int] | None = None
    endpoints: int = 1
    part_rows: int = DEFAULT_PART_ROWS
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    mode: Mode = "gateway"
    root: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    cache_bytes: int = DEFAULT_CACHE_BYTES
    timeout_seconds: float | None = None
    retries: int = 3
    at_least_once: bool = False

    def __post_init__(self) -> None:
        if not self.urls:
            raise InvalidInputError("option url is empty: give grpc://HOST:PORT of a gateway")
        for url in self.urls:
            _check_url(url, self.login)
        if (self.table is None) == (self.query is None):
            given = "both are" if self.table is not None else "neither is"
            raise InvalidInputError(
                f"either the option table or the option query says what is read: {given} given"
            )
        if (self.changes is None) != (self.since is None):
            raise InvalidInputError(
                "options changes and since belong together: changes = 'net' or 'all', and since = '12', a "
                "tag, a token, or TIMESTAMP '2026-05-01 12:00'"
            )
        if self.changes is None and self.part_rows != DEFAULT_PART_ROWS:
            raise InvalidInputError("option part_rows is about changes: give the options changes and since")
        if self.changes is None and self.until is not None:
            raise InvalidInputError("option until is about changes: give the options changes and since, too")
        if self.changes is not None and self.table is None:
            raise InvalidInputError("option changes is about a table: give the option table, and no query")
        if self.changes is not None and self.mode == "direct":
            raise InvalidInputError("option changes is for mode = 'gateway', which alone compares states")
        if self.mode == "direct" and self.root is None:
            raise InvalidInputError(
                "option mode = 'direct' needs the option root: the gateway's root as executors reach it"
            )

    @staticmethod
    def of(given: Mapping[str, str], parallelism: int | None = None) -> Options:
        """Read options as Spark hands them over, whose names don't tell case.

        Args:
            given: names and values.
            parallelism: endpoints where none are said; None stands for the cores of this machine.

        Raises:
            InvalidInputError: names the option that is unknown, contradicts another or has a wrong value.
        """
        values = {name.lower(): value for name, value in given.items() if name.lower() not in _OF_SPARK}
        for name in values:
            _check_name(name)
        if "path" in values and "table" in values:
            raise InvalidInputError("the table is given twice, as option table and by load() or save()")
        mode = cast("Mode", _one_of("mode", values.get("mode", "gateway"), MODES))
        storage = {
            name.removeprefix(_STORAGE): text for name, text in values.items() if name.startswith(_STORAGE)
        }
        if mode != "direct" and (storage or any(name in values for name in _DIRECT_ONLY)):
            name = next(value for value in values if value in _DIRECT_ONLY or value.startswith(_STORAGE))
            raise InvalidInputError(f"option {name} means something with mode = 'direct' only")
        settings: dict[str, str] = {
            name: values[name] for name in ("consistency", "max_staleness_ms", "dialect") if name in values
        }
        if "query" not in values and "dialect" in settings:
            raise InvalidInputError("option dialect is about the option query, which is not given")
        if "max_staleness_ms" in settings:
            _number("max_staleness_ms", settings["max_staleness_ms"], least=0)
        timeout = values.get("timeout")
        cores = min(parallelism or os.cpu_count() or 1, MAX_ENDPOINTS)
        return Options(
            urls=tuple(
                one.strip().rstrip("/") for one in values.get("url", DEFAULT_URL).split(",") if one.strip()
            ),
            login=Login(
                *(
                    values.get(name)
                    for name in ("user", "password", "token", "tls_ca", "tls_certificate", "tls_key")
                )
            ),
            table=values.get("table", values.get("path")),
            query=values.get("query"),
            columns=_columns(values.get("columns")),
            changes=_changes(values.get("changes")),
            since=_state(values.get("since")),
            until=_state(values.get("until")),
            endpoints=_number("endpoints", values.get("endpoints", str(cores)), most=MAX_ENDPOINTS),
            part_rows=_number("part_rows", values.get("part_rows", str(DEFAULT_PART_ROWS))),
            settings=settings,
            mode=mode,
            root=values.get("root"),
            storage=storage,
            cache_bytes=_number("cache_bytes", values.get("cache_bytes", str(DEFAULT_CACHE_BYTES))),
            timeout_seconds=None if timeout is None else float(_number("timeout", timeout)),
            retries=_number("retries", values.get("retries", "3"), least=0, most=100),
            at_least_once=_one_of(
                "at_least_once", values.get("at_least_once", "false").lower(), ("true", "false")
            )
            == "true",
        )


def refuse(given: Mapping[str, str], *, writing: bool) -> None:
    """Refuse options that mean nothing here.

    Args:
        given: names and values.
        writing: whether rows are written, and not read.

    Raises:
        InvalidInputError: names the option.
    """
    for name in _READING if writing else _WRITING:
        if name in {one.lower() for one in given}:
            what = "reading" if writing else "writing"
            raise InvalidInputError(
                f"option {name} is about {what}, and this does the opposite: leave it out"
            )


def _check_name(name: str) -> None:
    if name in NAMES or (name.startswith(_STORAGE) and name != _STORAGE):
        return
    close = difflib.get_close_matches(name, NAMES, n=2)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(NAMES)} and storage.*"
    raise InvalidInputError(f"option {name} is unknown: {hint}")


def _check_url(url: str, login: Login) -> None:
    if "@" in url:
        # Without the address, which has a secret in it.
        raise InvalidInputError(
            "option url holds a user or password: give the options user, password or token"
        )
    if not _URL.fullmatch(url):
        raise InvalidInputError(
            f"option url = {url!r} is not an address of a gateway: write grpc://HOST:PORT, or grpc+tls://"
        )
    if login.needs_tls and not url.startswith("grpc+tls:"):
        raise InvalidInputError(f"option url = {url!r} is not encrypted: certificates need grpc+tls://")


def _columns(text: str | None) -> tuple[str, ...]:
    """Names between commas; one with a comma in it stands in double quotes."""
    if text is None:
        return ()
    names = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    found = tuple(name.strip() for name in names)
    if not found or "" in found:
        raise InvalidInputError(f"option columns = {text!r} is not a list of names: write them as a, b, c")
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"option columns names {twice!r} twice")
    return found


def _changes(text: str | None) -> ChangesMode | None:
    return None if text is None else cast("ChangesMode", _one_of("changes", text.lower(), CHANGES_MODES))


def _state(text: str | None) -> str | None:
    """Return a state of a table as SQL: a number, an expression, or a tag or token in quotes."""
    if text is None or text.isdecimal() or not _NAME_OF_STATE.fullmatch(text):
        return text
    return f"'{text}'"


def _number(name: str, text: str, *, least: int = 1, most: int = (1 << 63) - 1) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        upto = "" if most >= 1 << 62 else f" to {most}"
        raise InvalidInputError(f"option {name} = {text!r}: give a whole number from {least}{upto}")
    return value


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        close = difflib.get_close_matches(value, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose {' or '.join(known)}"
        raise InvalidInputError(f"option {name} = {value!r} is unknown: {hint}")
    return value


# What can stand in brackets as a table; comments and brackets may come before it.
_IN_BRACKETS = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(select|with|values|table)\b", re.IGNORECASE | re.DOTALL
)


def quote_name(name: str) -> str:
    """A name as the gateway's SQL spells it."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """A text as SQL spells it."""
    return "'" + text.replace("'", "''") + "'"


def is_wrapped(options: Options) -> bool:
    """Whether columns and conditions can be part of the statement: it speaks the gateway's own SQL."""
    if options.query is None:
        return True
    native = options.settings.get("dialect", "postgres") == "postgres"
    return native and _IN_BRACKETS.match(options.query) is not None


def describe_options(options: Options) -> str:
    """The statement whose columns there are to choose from."""
    if options.changes is not None:
        # Columns are those of the newer state. The older one may be gone when a stream is started again.
        options = replace(options, since=options.until or "now()")
    return build_select(options, (), ()) if options.query is None else _plain(options.query)


def build_select(options: Options, columns: Sequence[str], conditions: Sequence[str]) -> str:
    """The statement that is executed.

    Args:
        options: name the table, or have the query.
        columns: of the result; all of them where there are none.
        conditions: all of which rows must fulfil.

    Returns:
        The query as it is where it can't be wrapped; its result may have more columns, in another order.
    """
    if not is_wrapped(options):
        return _plain(options.query or "")
    chosen = ", ".join(map(quote_name, columns)) or "*"
    if options.query is not None:
        # A comment may end the query.
        source = f"(\n{_plain(options.query)}\n) AS q"
    elif options.changes is not None:
        until = "" if options.until is None else f", until => {options.until}"
        if options.part is not None:
            until += f", part => {options.part[0]}, parts => {options.part[1]}"
        named = f"{quote_text(options.table or '')}, since => {options.since}{until}"
        source = f"lance_changes({named}, mode => '{options.changes}')"
    else:
        source = ".".join(map(quote_name, split_name(options.table or "")))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {chosen} FROM {source}{where}"  # noqa: S608 - names are quoted


def _plain(query: str) -> str:
    return query.strip().rstrip(";").rstrip()
