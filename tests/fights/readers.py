"""Clients that read tables which others write, and the reads whose rows are those of now."""

import random
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.fights.ledgers import Ledger
from tests.support.processes.servers import fetch

WORDS = 5


def text_of(value: int) -> str:
    return f"w{value % WORDS} n{value}"


def vector_of(key: int, value: int) -> list[float]:
    return [float(value % 10), float(key % 10), 1.0, 0.0]


class WrongAnswerError(AssertionError):
    """Rows that no state between the beginning and the end of a statement had."""


@dataclass
class Reader:
    """One client: a connection to each gateway, and what it has seen."""

    connections: list[Any]
    ledger: Ledger
    keyless: Ledger
    rng: random.Random
    lane: int
    steps: list[str] = field(default_factory=list)
    copy: dict[int, int] | None = None
    position: str = ""
    positioned_at: float = 0.0

    pause: threading.Event = field(default_factory=threading.Event)

    def wait(self, seconds: float) -> None:
        """Take some time, as clients do."""
        self.pause.wait(seconds)

    @property
    def connection(self) -> Any:
        return self.rng.choice(self.connections)

    def ask(self, text: str, parameters: tuple[Any, ...] = (), connection: Any = None) -> pa.Table:
        self.steps.append(text[:300])
        return fetch(connection or self.connection, text, parameters)

    def check(self, rows: Iterable[tuple[int, int]], began: float, ledger: Ledger | None = None) -> None:
        wrong = (ledger or self.ledger).explain(rows, began, time.perf_counter())
        if wrong:
            raise WrongAnswerError(wrong)

    def check_some(self, rows: list[dict[str, Any]], began: float) -> None:
        """Rows are possible, each for itself."""
        possible = self.ledger.possible(began, time.perf_counter())
        for row in rows:
            if row["v"] not in possible.get(row["id"], ()):
                raise WrongAnswerError(f"{row} may be {possible.get(row['id'])}")
            if "s" in row and row["s"] != text_of(row["v"]):
                raise WrongAnswerError(f"{row} is mixed")
            if "vec" in row and row["vec"] != vector_of(row["id"], row["v"]):
                raise WrongAnswerError(f"{row} is mixed")


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    return list(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


def now() -> float:
    return time.perf_counter()


def scan(r: Reader) -> None:
    began = now()
    found = r.ask("SELECT id, v, s, vec FROM t")
    r.check(pairs(found), began)
    r.check_some(found.to_pylist(), began)


def lookup(r: Reader) -> None:
    key, began = r.rng.randrange(120), now()
    found = r.ask("SELECT id, v, s FROM t WHERE id = ?", (key,)).to_pylist()
    seen = found[0]["v"] if found else None
    possible = r.ledger.possible(began, now()).get(key, {None})
    if len(found) > 1 or seen not in possible:
        raise WrongAnswerError(f"key {key}: {found}, may be {possible}")
    r.check_some(found, began)


def listed(r: Reader) -> None:
    keys, began = r.rng.sample(range(120), 10), now()
    found = r.ask(f"SELECT id, v, s FROM t WHERE id IN ({', '.join(map(str, keys))})").to_pylist()
    seen = {row["id"]: row["v"] for row in found}
    possible = r.ledger.possible(began, now())
    for key in keys:
        if seen.get(key) not in possible.get(key, {None}):
            raise WrongAnswerError(f"key {key}: {seen.get(key)}, may be {possible.get(key)}")


def filtered(r: Reader) -> None:
    began, word = now(), r.rng.randrange(WORDS)
    found = r.ask(f"SELECT id, v, s FROM t WHERE v % {WORDS} = {word}").to_pylist()
    _check_word(r, found, began, word)


def aggregate(r: Reader) -> None:
    began = now()
    (found,) = r.ask("SELECT count(*) AS n, count(DISTINCT id) AS d FROM t").to_pylist()
    values = r.ledger.possible(began, now()).values()
    least, most = sum(None not in one for one in values), sum(one != {None} for one in values)
    if found["n"] != found["d"] or not least <= found["n"] <= most:
        raise WrongAnswerError(f"{found}, not {least} to {most}")


def join(r: Reader) -> None:
    began = now()
    found = r.ask("SELECT a.id, a.v, b.v AS w FROM t a JOIN t b ON a.id = b.id")
    r.check(pairs(found), began)
    if any(row["v"] != row["w"] for row in found.to_pylist()):
        raise WrongAnswerError("two states in one statement")


def search_vectors(r: Reader) -> None:
    began, k = now(), r.rng.choice((5, 1000))
    flat = r.rng.choice(("", ", use_index => false"))
    found = r.ask(
        f"SELECT id, v, s, vec, _distance FROM lance_vector_search('t', 'vec', [1, 2, 1, 0], k => {k}{flat})"
    )
    r.check_some(found.to_pylist(), began)
    if k == 1000:
        r.check(pairs(found), began)


def search_texts(r: Reader) -> None:
    began, word = now(), r.rng.randrange(WORDS)
    found = r.ask(f"SELECT id, v, s FROM lance_fts('t', 's', 'w{word}', k => 1000)").to_pylist()
    _check_word(r, found, began, word)


def _check_word(r: Reader, found: list[dict[str, Any]], began: float, word: int) -> None:
    """Check rows that were asked for by a word: no key that had it all the time is missing."""
    r.check_some(found, began)
    seen = {row["id"] for row in found}
    for key, values in r.ledger.possible(began, now()).items():
        if all(value is not None and value % WORDS == word for value in values) and key not in seen:
            raise WrongAnswerError(f"key {key} is missing, may be {values}")


def search_both(r: Reader) -> None:
    began = now()
    text = "SELECT id, v, s FROM lance_hybrid_search('t', 'vec', [1, 2, 1, 0], 's', 'w1', k => 10)"
    r.check_some(r.ask(text).to_pylist(), began)
