"""Principals who search at the same time, while rows change hands, share caches and nothing else."""

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lance_gateway.planner.access.rights import TableAccess
from tests.planner.search.policy.policy_lake import QUERY, RARE, Lake, docs
from tests.support.judging.principals import create_principal
from tests.support.processes.writer_process import WriterProcess

SEARCHES = (
    f"SELECT * FROM lance_vector_search('docs', 'vec', {QUERY}, k => 5)",
    f"SELECT * FROM lance_vector_search('docs', 'vec', {QUERY}, k => 5, staleness => 'bloom')",
    f"SELECT * FROM lance_fts('docs', 'body', '{RARE} lake', k => 5) WHERE body LIKE '%e%'",
    f"SELECT * FROM lance_hybrid_search('docs', 'vec', {QUERY}, 'body', '{RARE} lake', k => 5)",
    f"SELECT * FROM docs WHERE id >= 0 ORDER BY l2_distance(vec, {QUERY}) LIMIT 5",
)
SHOWN: dict[str, Callable[[dict[str, Any]], bool]] = {
    "tenant = 'a'": lambda row: row["tenant"] == "a",
    "tenant = 'b'": lambda row: row["tenant"] == "b",
    "id % 3 = 0": lambda row: row["id"] % 3 == 0,
    "upper(note) = 'OK'": lambda row: row["note"] == "ok",
    "pages < 5": lambda row: row["pages"] < 5,
    "false": lambda _: False,
}
SEARCHES_EACH = 15
WRITES = 30


@pytest.mark.slow
@pytest.mark.soak
def test_nobody_finds_what_is_hidden_from_them(tmp_path: Path, writers: WriterProcess):
    lake = Lake(tmp_path, writers)
    principals = {rows: create_principal(docs=TableAccess(row_filter=rows)) for rows in SHOWN}
    wrong: list[object] = []

    def search(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(SEARCHES_EACH):
            rows, sql = chance.choice(list(SHOWN)), chance.choice(SEARCHES)
            try:
                found = lake.engine.prepare(sql, access=principals[rows]).execute().read_all().to_pylist()
            except Exception as error:  # noqa: BLE001 - of whatever kind, the test fails
                wrong.append((sql, rows, error))
                return
            wrong.extend((sql, rows, row["id"]) for row in found if not SHOWN[rows](row))
            if len({row["id"] for row in found}) != len(found):
                wrong.append((sql, rows, "a row twice"))

    threads = [threading.Thread(target=search, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    chance = random.Random(4)
    # As many as there are, whatever the searches take: each makes all that are to come dearer.
    for version in range(1, WRITES + 1):
        if not any(thread.is_alive() for thread in threads):
            break
        lake.table.put(docs([chance.randrange(70)], version % 6))
        if version % 7 == 0:
            lake.table.close_writers()
    for thread in threads:
        thread.join()
    lake.engine.close()
    assert wrong == []
