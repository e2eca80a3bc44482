"""Mends of DataFusion's mistakes, left out one at a time: after how many statements a machine notices it.

    python -m tests.fuzz.typed.undone [--mend NAME] [--statements N] [--seed N] [--all]

A machine asks only what concerns the mend, by the words of a text, unless `--all` is given.
A mismatch counts if the same statements have none with the mend in its place.
"""

# ruff: noqa: E501 - rows of tables

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias
from unittest.mock import patch

from datafusion import SessionConfig

from lance_gateway.execnodes.storage import source
from lance_gateway.memwal.base.repeated_rows import KeyHistory
from lance_gateway.planner.binding import bind
from lance_gateway.planner.plans import contexts, dataframes
from lance_gateway.planner.plans.checks import mistaken_plans
from lance_gateway.planner.predicates import row_filter
from lance_gateway.planner.sql import rules
from lance_gateway.planner.sql.forms import FORMS
from lance_gateway.planner.sql.rules import RULES
from lance_gateway.planner.sql.subqueries.rewriting import JoinedStatement, join_subqueries
from lance_gateway.planner.tables.sources import log_tail
from tests.fuzz.typed.concerns import CONCERNS
from tests.fuzz.typed.functions import functions
from tests.fuzz.typed.judges import Postgres, find_postgres, serve_postgres
from tests.fuzz.typed.operators import OPERATORS
from tests.fuzz.typed.report import Mismatch
from tests.fuzz.typed.running import Machine
from tests.support.processes.writer_process import WriterProcess

MOST: Final = 20_000
"""Statements within which each is noticed."""
_Change: TypeAlias = tuple[Any, str, Any]
_NEVER: Final = re.compile(r"(?!)")


@dataclass(frozen=True)
class Mend:
    """A part of the product without which an answer is wrong.

    Attributes:
        changes: Objects, their attributes, and what these are without the mend.
        patterns: All of them are found in texts that it concerns, behind the types that are read.
    """

    name: str
    changes: Sequence[_Change]
    patterns: Sequence[re.Pattern[str]] = ()

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """Leave it out of this process for a while."""
        with ExitStack() as stack:
            for owner, name, value in self.changes:
                stack.enter_context(patch.object(owner, name, value))
            yield

    def concerns(self, text: str) -> bool:
        """Return whether a statement has what it mends."""
        return all(one.search(text) for one in self.patterns)


@dataclass(frozen=True)
class Found:
    """A mend that was missed.

    Attributes:
        statements: How many were asked before.
        drawn: How many expressions were drawn before, also those that do not concern it.
    """

    statements: int
    drawn: int
    mismatch: Mismatch


def find(
    mend: Mend,
    process: WriterProcess,
    postgres: Postgres | None,
    *,
    seed: int = 1,
    statements: int = MOST,
    is_narrow: bool = True,
) -> Found | None:
    """Leave a mend out until a machine notices it; None if it does not."""
    operators = (*OPERATORS, *functions())
    machine = Machine(seed, postgres, operators=operators, aimed=0)
    if is_narrow:
        machine.concerns = mend.concerns
        names, types = _NARROW.get(mend.name, ("", ""))
        machine.operators = [one for one in operators if not names or one.name in names.split("|")]
        machine.types = types.split() or machine.types
    ignored: set[str] = set()
    lake = asked = drawn = 0
    while asked < statements:
        with mend.left_out():
            left_out = replace(machine, most=1, ignored=ignored)
            report = left_out.run(process, statements=statements - asked, first_lake=lake)
        drawn += report.counts["drawn"]
        if not report.mismatches:
            return None
        kind, mismatch = next(iter(report.mismatches.items()))
        # The same statements with the mend.
        same = machine.run(process, statements=mismatch.asked, first_lake=mismatch.lake)
        if kind not in same.mismatches:
            return Found(asked + mismatch.number, drawn, mismatch)
        also = [str(one) for name, one in same.mismatches.items() if name not in ignored]
        write("\n".join(f"also with {mend.name}, {one}" for one in also))
        ignored |= same.mismatches.keys()
        lake, asked = mismatch.lake, asked + mismatch.number
    return None


NOT_ASKED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("columns_of_from", "fetch", "fetch_with_ties", "frame_exclusions", "local_times", "order_by_all", "orders_of_distinct",
         "orders_within_groups", "refused_functions", "sides_of_joins"),
        "syntax that DataFusion lacks or functions that it has not, and no type decides: tests/planner/data/forms has its cases",
    ),
    "hidden_operands": "it refuses in FILTER and orders what is refused in SELECT: tests/planner/data/workarounds/hidden_operands.sql",
    "misleading_names": "names of columns decide, and no type: tests/planner/data/workarounds/misleading_names.sql",
}  # fmt: skip
"""Mends that no typed statement needs: why, and what tests them."""


def list_mends() -> Mapping[str, Mend]:
    """Return all of them by their names, but those that are not asked."""
    return {one.name: one for one in _iterate_mends() if one.name not in NOT_ASKED}


def _iterate_mends() -> Iterator[Mend]:
    for rule in (*RULES, *FORMS):
        changes: list[_Change] = [
            (rules, "RULES", tuple(one for one in RULES if one is not rule)),
            (bind, "FORMS", tuple(one for one in FORMS if one is not rule)),
        ]
        patterns = CONCERNS.get(rule.__name__, ())
        yield Mend(rule.__name__, changes, [re.compile(one, re.DOTALL) for one in patterns])
    for name, pattern, parts in _CHECKS:
        yield Mend(name, parts, [re.compile(pattern, re.DOTALL)])


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _join_none(sql: str, *rest: Any, joins_all: bool = False, **more: Any) -> JoinedStatement:
    """Join only the subqueries that DataFusion refuses."""
    return join_subqueries(sql, *rest, joins_all=True, **more) if joins_all else JoinedStatement(sql, {})


def _without_option(name: str) -> _Change:
    class Config(SessionConfig):  # type: ignore[misc]
        def set(self, key: str, value: str) -> SessionConfig:
            return self if key.endswith(name) else super().set(key, value)

    return contexts, "SessionConfig", Config


def _same_rows(rows: Any) -> Any:
    return rows


_NESTED = r"\bselect\b.*\bselect\b"
_CHECKS: Final[Sequence[tuple[str, str, Sequence[_Change]]]] = (
    ("coarse_instants", r"timestamp\[m?s\b.*(?::\d\d\.\d|milliseconds)", [(mistaken_plans, "refuse_lost_fractions", _nothing)]),
    ("null_equal_joins", r"\bjoin\b.*\bdistinct from\b", [(dataframes, "find_mixing_rules", lambda *_: ())]),
    ("unplanned_subqueries", _NESTED, [(dataframes, "refuse_unplanned_subqueries", _nothing)]),
    ("join_subqueries", rf"\bjoin\b|{_NESTED}", [(dataframes, "join_subqueries", _join_none)]),
    ("multisets", r"\b(?:intersect|except)\s+all\b", [(dataframes, "MULTISETS", _NEVER)]),
    ("eliminate_duplicated_expr", r"\border\b", [(contexts, "WRONG_RULES", ("eliminate_group_by_constant",))]),
    ("eliminate_group_by_constant", r"\bgroup\b", [(contexts, "WRONG_RULES", ("eliminate_duplicated_expr",))]),
    ("repartition_sorts", r"\bunion\b.*\border\b", [(dataframes, "_UNITED_ORDER", _NEVER)]),
    ("time_zone", r"timestamptz.*at time zone|now", [_without_option("time_zone")]),
    ("skip_physical_aggregate_schema_check", r"(?=.*\bis (?:not )?(?:true|false)\b).*\b(?:distinct|group)\b", [_without_option("skip_physical_aggregate_schema_check")]),
    ("enable_leaf_expression_pushdown", r"struct.*\bjoin\b", [_without_option("enable_leaf_expression_pushdown")]),
    ("find_repeated_rows", "", [(KeyHistory, "shows_distinct_keys", lambda *_: True)]),
    ("compare_floats", r"\b(?:float|double)\b.*\bwhere\b", [(row_filter, "compare_floats", lambda compare, left, right: compare(left, right))]),
    ("push_nulls_down", r"struct", [(log_tail, "push_nulls_down", _same_rows), (source, "push_nulls_down", _same_rows)]),
)  # fmt: skip
"""Checks of plans, options of DataFusion and mends of Lance: the texts that they concern, and what they are without."""


_NARROW: Final[Mapping[str, tuple[str, str]]] = {
    "computed_lists": ("IN many", ""),
    "compare_floats": ("=|<|<=|>|>=|<>", "float double"),
    "coarse_instants": ("+ milliseconds|later by milliseconds", "timestamp_s timestamp_ms"),
    "decimal_literals": ("product compared", "decimal_10_2"),
    "decimals_as_doubles": ("=|IN|ANY", "decimal_10_2 double"),
    "time_units": ("coalesce|CASE of values|=", "timestamp_s timestamp_us timestamp_ms"),
    "decimal_elements": ("ANY of a list", "list_decimal"),
    "enable_leaf_expression_pushdown": ("+|upper|abs|*", "struct"),
    "extremes": ("coalesce|CASE of values|nullif", "float double"),
    "fractions": ("cast to timestamp 4", ""),
    "integer_arithmetic": ("+|-|*", "int8 int16 uint8 uint16 uint32"),
    "json_values": ("json text|json number|LIKE", "json"),
    "lossy_casts": ("cast compared", "double decimal_10_2 decimal_18_3"),
    "multiplied_intervals": ("+ days", ""),
    "null_replacements": ("nvl|ifnull|nvl2", ""),
    "number_texts": ("=|<|CASE of values|coalesce", "decimal_10_2 decimal_10_0 decimal_5_4"),
    "read_texts": ("read time", "text"),
    "real_literals": ("=|IN|CASE of values|coalesce", "float vector"),
    "row_values": ("rows <|rows =", ""),
    "skip_physical_aggregate_schema_check": ("IS TRUE|IS NOT FALSE|IS UNKNOWN", "boolean int64"),
    "uuids": ("cast to uuid|=|IN", "uuid"),
    "wide_decimals": ("< wide", "decimal_38_2 decimal_38_10 decimal_5_4"),
}
"""Operators and types, of which there are few, that a mend concerns where its patterns are found in most texts."""


def main() -> int:
    """Leave out all of them, or one; return 1 if one is not missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.typed.undone", description=__doc__)
    parser.add_argument("--mend", default="", help="names, with commas between")
    parser.add_argument("--statements", type=int, default=MOST)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="ask everything, also what does not concern it")
    chosen = parser.parse_args()
    mends = list_mends()
    missing = []
    with ExitStack() as stack:
        programs = find_postgres()
        postgres = None if programs is None else stack.enter_context(serve_postgres(programs))
        process = stack.enter_context(WriterProcess())
        for name in chosen.mend.split(",") if chosen.mend else mends:
            begin = time.monotonic()
            found = find(
                mends[name], process, postgres,
                seed=chosen.seed, statements=chosen.statements, is_narrow=not chosen.all,
            )  # fmt: skip
            seconds = time.monotonic() - begin
            if found is None:
                missing.append(name)
                write(f"{name:40} is not missed, in {seconds:.0f} s")
            else:
                write(
                    f"{name:40} {found.statements:6} statements of {found.drawn} expressions in {seconds:.0f} s, "
                    f"by {found.mismatch.judge}: {found.mismatch.sql[:150]}"
                )
    write(f"not missed: {missing}")
    return 1 if missing else 0


def write(text: str) -> None:
    """Write a text to standard output, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
