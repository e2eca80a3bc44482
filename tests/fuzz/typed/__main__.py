"""The fuzzer of types by hand: mismatches, counts, shares, and the table of what was asked."""

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from tests.fuzz.typed.coverage import describe
from tests.fuzz.typed.functions import functions
from tests.fuzz.typed.judges import find_postgres, serve_postgres
from tests.fuzz.typed.operators import OPERATORS
from tests.fuzz.typed.report import Report
from tests.fuzz.typed.running import Machine
from tests.support.processes.writer_process import WriterProcess


def main() -> int:
    """Run; return 1 when an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.typed", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="all follows from it")
    parser.add_argument("--statements", type=int, default=10_000, help="how many are asked at most")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long at most")
    parser.add_argument("--lake", type=int, default=0, help="the first lake, as a reproduction names it")
    parser.add_argument("--mismatches", type=int, default=10_000, help="how many kinds of them end the run")
    parser.add_argument("--types", default="", help="names of types, with commas between")
    parser.add_argument("--plain-nulls", action="store_true", help="no values in the fields of NULL structs")
    parser.add_argument("--known", action="store_true", help="show differences that are known, too")
    parser.add_argument(
        "--asks", choices=("all", "operators", "functions"), default="all", help="what is asked"
    )
    parser.add_argument("--strict", action="store_true", help="differences that are being mended count, too")
    parser.add_argument("--keep", type=Path, help="file of what the run came to; one that is there goes on")
    parser.add_argument(
        "--show", type=Path, nargs="+", help="show what the runs of such files came to, in all"
    )
    chosen = parser.parse_args()
    if chosen.show:
        total, *others = map(Report.load, chosen.show)
        for one in others:
            total.add(one)
        return show(total)
    with ExitStack() as stack:
        programs = find_postgres()
        postgres = None if programs is None else stack.enter_context(serve_postgres(programs))
        process = stack.enter_context(WriterProcess())
        kept = Report.load(chosen.keep) if chosen.keep is not None and chosen.keep.exists() else None
        machine = Machine(
            chosen.seed if kept is None else kept.seed,
            postgres,
            lambda one: write(f"\n{one}"),
            chosen.mismatches,
        )
        if chosen.types:
            machine.types = chosen.types.split(",")
        machine.operators = {
            "operators": OPERATORS, "functions": functions(), "all": (*OPERATORS, *functions()),
        }[chosen.asks]  # fmt: skip
        machine.is_patient = not chosen.strict
        machine.fills = not chosen.plain_nulls
        report = machine.run(
            process,
            statements=chosen.statements,
            seconds=chosen.seconds,
            first_lake=chosen.lake,
            report=kept,
            keep=(lambda _: None) if chosen.keep is None else lambda report: report.save(chosen.keep),
        )
    if chosen.known:
        write("\n\n".join(sorted(report.pending.values())))
    return show(report)


def show(report: Report) -> int:
    """Write what a run came to, or several; return 1 when an answer was wrong."""
    write("\n\n".join(map(str, report.mismatches.values())))
    write(describe(report.cells))
    write(report.figures())
    return 1 if report.mismatches else 0


def write(text: str) -> None:
    """Write a text to standard output, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
