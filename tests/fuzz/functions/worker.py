"""Runs one statement a line, in a process that may die of it.

Reads JSON lines `[sql]`, answers JSON lines `[outcome, text]`. Outcomes: `rows`, the gRPC status of an error,
or `panic`. Command line: how it runs them (`plain` DataFusion or the gateway's `engine`), bytes of memory.
"""

import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from typing import Any


def main() -> None:
    kind, memory = sys.argv[1], int(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    run = _open_plain() if kind == "plain" else _open_engine()
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        try:
            outcome = ["rows", run(*json.loads(line))]
        except BaseException as error:  # noqa: BLE001 - a panic is not an Exception
            status = getattr(error, "status", "error")
            outcome = ["panic" if type(error).__name__ == "PanicException" else status, str(error)[:2000]]
        answers.write(json.dumps(outcome) + "\n")
        answers.flush()


def _open_plain() -> Callable[[str], str]:
    from datafusion import SessionConfig, SessionContext  # noqa: PLC0415 - before the limit of memory

    config = SessionConfig().with_target_partitions(1).with_information_schema(True)
    config = config.set("datafusion.sql_parser.dialect", "postgres")
    context = SessionContext(config)

    def run(sql: str, only_plan: bool = False) -> str:
        frame = context.sql(sql)
        return "" if only_plan else str(sum(batch.num_rows for batch in frame.collect()))

    return run


def _open_engine() -> Callable[[str], str]:
    from lance_gateway.planner.engine import QueryEngine  # noqa: PLC0415
    from lance_gateway.planner.tables.state.catalog import Catalog  # noqa: PLC0415

    engine = QueryEngine(Catalog.open(tempfile.mkdtemp()), partitions=1, memory_bytes=256 << 20)

    def run(sql: str) -> str:
        reader: Any
        with engine.prepare(sql).execute() as reader:
            return str(sum(batch.num_rows for batch in reader))

    return run


if __name__ == "__main__":
    main()
