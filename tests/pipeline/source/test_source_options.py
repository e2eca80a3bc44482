"""What a user may say to the data source."""

import re

import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.pipeline.source.options import Login, Options, build_select, is_wrapped, refuse


def test_little_needs_to_be_said() -> None:
    options = Options.of({"path": "orders"}, parallelism=6)
    assert options.urls == ("grpc://127.0.0.1:31337",)
    assert (options.table, options.endpoints, options.mode, options.retries) == ("orders", 6, "gateway", 3)
    assert options.timeout_seconds is None


def test_names_do_not_tell_case_and_lists_have_spaces() -> None:
    options = Options.of({"TABLE": "t", "columns": 'b, "a,c"', "URL": "grpc://a:1/, grpc+tls://b:2"})
    assert options.columns == ("b", "a,c")
    assert options.urls == ("grpc://a:1", "grpc+tls://b:2")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tabel": "t"}, "option tabel is unknown: did you mean table"),
        ({"zzz": "1", "table": "t"}, "option zzz is unknown: there are url, table"),
        ({}, "either the option table or the option query .* neither is"),
        ({"table": "t", "query": "SELECT 1"}, "both are given"),
        ({"path": "t", "table": "t"}, "given twice"),
        ({"table": "t", "url": "http://a:1"}, "url = 'http://a:1' is not an address"),
        ({"table": "t", "mode": "dirct"}, "option mode = 'dirct' is unknown: did you mean 'direct'"),
        ({"table": "t", "mode": "direct"}, "needs the option root"),
        ({"table": "t", "root": "/data"}, "option root means something with mode = 'direct' only"),
        ({"table": "t", "storage.aws_region": "x"}, r"storage\.aws_region means something with mode"),
        ({"table": "t", "endpoints": "0"}, "endpoints = '0': give a whole number from 1 to 4096"),
        ({"table": "t", "endpoints": "many"}, "endpoints = 'many'"),
        ({"table": "t", "retries": "-1"}, "retries = '-1'"),
        ({"table": "t", "timeout": "1s"}, "timeout = '1s'"),
        ({"table": "t", "max_staleness_ms": "x"}, "max_staleness_ms = 'x'"),
        ({"table": "t", "dialect": "spark"}, "dialect is about the option query"),
        ({"table": "t", "changes": "net"}, "changes and since belong together"),
        ({"table": "t", "since": "1"}, "changes and since belong together"),
        ({"table": "t", "until": "1"}, "until is about changes"),
        ({"table": "t", "part_rows": "7"}, "part_rows is about changes"),
        ({"table": "t", "changes": "some", "since": "1"}, "changes = 'some' is unknown"),
        ({"query": "SELECT 1", "changes": "net", "since": "1"}, "changes is about a table"),
        (
            {"table": "t", "changes": "net", "since": "1", "mode": "direct", "root": "/data"},
            "changes is for mode = 'gateway'",
        ),
        ({"table": "t", "columns": "a,,b"}, "columns = 'a,,b' is not a list"),
        ({"table": "t", "columns": "a,a"}, "names 'a' twice"),
        ({"table": "t", "user": "u", "token": "secret-token"}, "user and token contradict"),
        ({"table": "t", "password": "secret-password"}, "password needs the option user"),
        ({"table": "t", "tls_key": "k"}, "tls_certificate and tls_key belong together"),
        ({"table": "t", "tls_ca": "ca.pem"}, "is not encrypted: certificates need grpc"),
        ({"table": "t", "url": "grpc://u:secret-word@a:1"}, "holds a user or password"),
    ],
)
def test_what_cannot_be_is_refused_by_name(given: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words) as refused:
        Options.of(given)
    assert "secret" not in str(refused.value)


def test_options_of_reading_and_writing_are_told_apart() -> None:
    refuse({"table": "t", "at_least_once": "true"}, writing=True)
    with pytest.raises(InvalidInputError, match="option endpoints is about reading"):
        refuse({"Endpoints": "2"}, writing=True)
    with pytest.raises(InvalidInputError, match="option at_least_once is about writing"):
        refuse({"at_least_once": "true"}, writing=False)


def test_secrets_are_in_no_text() -> None:
    given = {"table": "t", "mode": "direct", "root": "s3://b", "storage.aws_secret_access_key": "hush"}
    shown = repr(Options.of({**given, "user": "olga", "password": "hush"})) + repr(Login(token="hush"))
    assert "olga" in shown
    assert "hush" not in shown


def test_secrets_may_stand_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_GATEWAY_TOKEN", "from-environment")
    monkeypatch.delenv("LANCE_GATEWAY_PASSWORD", raising=False)
    assert Login().secret() == (None, "from-environment")
    assert Login(token="given").secret() == (None, "given")
    with pytest.raises(InvalidInputError, match="user 'olga' has no password"):
        Login("olga").secret()
    monkeypatch.setenv("LANCE_GATEWAY_PASSWORD", "pass")
    assert Login("olga").secret() == ("pass", None)


@pytest.mark.parametrize(
    ("given", "sql"),
    [
        ({"table": "orders"}, 'SELECT "a" FROM "orders" WHERE x'),
        ({"table": 'Odd "Name"'}, 'SELECT "a" FROM "Odd ""Name""" WHERE x'),
        ({"table": "system.queries"}, 'SELECT "a" FROM "system"."queries" WHERE x'),
        ({"table": "lance.Sales.orders"}, 'SELECT "a" FROM "lance"."Sales"."orders" WHERE x'),
        ({"table": 'sales."t.x"'}, 'SELECT "a" FROM "sales"."t.x" WHERE x'),
        (
            {"table": "o'clock", "changes": "net", "since": "12", "until": "v1"},
            "SELECT \"a\" FROM lance_changes('o''clock', since => 12, until => 'v1', mode => 'net') WHERE x",
        ),
        (
            {"table": "t", "changes": "ALL", "since": "now() - INTERVAL '1 hour'"},
            "SELECT \"a\" FROM lance_changes('t', since => now() - INTERVAL '1 hour', mode => 'all') WHERE x",
        ),
        ({"query": "SELECT 1 AS a; "}, 'SELECT "a" FROM (\nSELECT 1 AS a\n) AS q WHERE x'),
        ({"query": "-- why\nWITH c AS (SELECT 1) SELECT * FROM c -- end"}, None),
    ],
)
def test_columns_and_conditions_become_part_of_the_statement(given: dict[str, str], sql: str | None) -> None:
    options = Options.of(given)
    assert is_wrapped(options)
    assert build_select(options, ["a"], ["x"]) == (
        sql or f'SELECT "a" FROM (\n{given["query"]}\n) AS q WHERE x'
    )


@pytest.mark.parametrize("given", [{"query": "SHOW TABLES"}, {"query": "SELECT 1", "dialect": "spark"}])
def test_other_statements_are_sent_as_they_are(given: dict[str, str]) -> None:
    assert not is_wrapped(Options.of(given))
    assert re.sub(r"\s", " ", build_select(Options.of(given), ["a"], ["x"])) == given["query"]
