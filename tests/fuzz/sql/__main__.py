"""The fuzzer by hand: counts for each judge, statements per second, mismatches and how to get them again."""

import argparse
import sys
import time

from tests.fuzz.sql.running import STATEMENTS_PER_LAKE, Fuzzer
from tests.support.processes.writer_process import WriterProcess


def main() -> int:
    """Run; returns 1 when the gateway was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.sql", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="all follows from it")
    parser.add_argument("--statements", type=int, default=10_000, help="how many are judged at most")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long at most")
    parser.add_argument("--lake", type=int, default=0, help="the first lake, as a reproduction names it")
    parser.add_argument("--per-lake", type=int, default=STATEMENTS_PER_LAKE, help="statements of each lake")
    parser.add_argument("--mismatches", type=int, default=5, help="how many end the run")
    parser.add_argument("--thorough", action="store_true", help="check answers by one another more often")
    chosen = parser.parse_args()
    fuzzer = Fuzzer(
        chosen.seed,
        chosen.per_lake,
        chosen.mismatches,
        tell=lambda one: write(f"\n{one}"),
        is_thorough=chosen.thorough,
    )
    with WriterProcess() as process:
        report = fuzzer.run(
            process, statements=chosen.statements, seconds=chosen.seconds, first_lake=chosen.lake
        )
    write(report.figures())
    return 1 if report.ours else 0


def write(text: str) -> None:
    """Write a text to standard output, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
