"""Statements that would end or occupy a process, sent over and over by a process of its own."""

import multiprocessing as mp
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import adbc_driver_flightsql.dbapi as flight_sql
import adbc_driver_manager

ATTACKS = (
    "SELECT approx_percentile_cont(1, 0.5, 70368744177664)",
    "SELECT array_repeat(1, value) FROM generate_series(70368744177664, 70368744177664)",
    "SELECT array_resize([1], value) FROM generate_series(70368744177664, 70368744177664)",
    "SELECT arrow_cast(1, '" + "List(" * 8000 + "Int64" + ")" * 8000 + "')",
    "SELECT length(replace(repeat('x', 10000000), 'x', repeat('y', 10000000)))",
    "SELECT length(regexp_replace(repeat('x', 10000000), 'x', repeat('y', 10000000), 'g'))",
    "SELECT levenshtein(repeat('ab', 20000), repeat('ba', 20000))",
    "SELECT sum(levenshtein(repeat('ab', 20000 + value), repeat('ba', 20000))) FROM generate_series(1, 9)",
    "SELECT " + "+".join(["1"] * 990),
    "SELECT 1 IN (" + ",".join(map(str, range(100_000))) + ")",
    "INSERT INTO nothing VALUES " + ",".join(f"({number}, 'x')" for number in range(50_000)),
    "SELECT arrow_cast(NULL, 'FixedSizeList(2147483647, Int64)')",
    "SELECT max(array_repeat(value, 10000000)) FROM generate_series(1, 8192)",
    "SELECT count(*) FROM generate_series(1, 9999) a, generate_series(1, 9999999) b WHERE a.value < b.value",
)


@contextmanager
def attack(uri: str) -> Iterator[None]:
    """Send the attacks to a server, one after the other and again, in a process of its own."""
    process = mp.get_context("spawn").Process(target=_attack_forever, args=(uri,), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _attack_forever(uri: str) -> None:
    while True:
        for statement in ATTACKS:
            with (
                flight_sql.connect(uri, autocommit=True) as connection,
                connection.cursor() as cursor,
                suppress(adbc_driver_manager.Error, OSError),
            ):
                cursor.execute(statement)
                cursor.fetchall()
