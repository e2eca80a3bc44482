"""Findings, their bars, and the Markdown report."""

import datetime as dt
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil  # type: ignore[import-untyped]

from benchmarks.reports.settings import REPOSITORY, BenchSettings

Unit = Literal["x", "ms", "MiB", "recall", "/s"]
_VERSIONS_OF = ("pylance", "datafusion", "pyarrow", "sqlglot", "numpy", "adbc-driver-flightsql", "roapi")


@dataclass(frozen=True, slots=True)
class Bar:
    """The value that a finding must not exceed, or must reach."""

    limit: float
    kind: Literal["at most", "at least"] = "at most"

    def verdict(self, value: float) -> Literal["PASS", "MISS"]:
        """PASS when the value is on the right side of the limit (the limit itself passes)."""
        holds = value <= self.limit if self.kind == "at most" else value >= self.limit
        return "PASS" if holds else "MISS"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        title: What was measured.
        gateway: The gateway's own number, with its unit.
        against: What it is compared with, and that one's number.
        value: The judged number: a ratio, or the gateway's number itself.
        unit: Unit of `value`.
        bar: The bar, or None for a number that is only reported.
        note: How it was measured where the title doesn't say.
    """

    title: str
    gateway: str
    against: str
    value: float
    unit: Unit = "x"
    bar: Bar | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """PASS or MISS, or an empty text without a bar."""
        return "" if self.bar is None else self.bar.verdict(self.value)

    @property
    def bar_text(self) -> str:
        """The bar as the report prints it."""
        if self.bar is None:
            return ""
        sign = "<=" if self.bar.kind == "at most" else ">="
        return f"{sign} {_format_quantity(self.bar.limit, self.unit)}"

    @property
    def value_text(self) -> str:
        """The judged number as the report prints it."""
        return _format_quantity(self.value, self.unit)

    def format_line(self) -> str:
        """Return the finding in one line of plain text."""
        against = f" against {self.against}" if self.against else ""
        bar = f" (bar {self.bar_text}: {self.verdict})" if self.bar else ""
        return f"{self.title}: {self.gateway}{against} = {self.value_text}{bar}"


@dataclass(frozen=True, slots=True)
class FamilyResult:
    """The findings of one family and how long it ran."""

    name: str
    findings: tuple[Finding, ...]
    seconds: float


def write_report(path: Path, settings: BenchSettings, results: Sequence[FamilyResult]) -> None:
    """Write the report, replacing an older one."""
    lines = ["# Benchmark results", "", *_describe_environment(settings), ""]
    missed = [f for r in results for f in r.findings if f.verdict == "MISS"]
    passed = sum(f.verdict == "PASS" for r in results for f in r.findings)
    lines += [f"**{passed} of {passed + len(missed)} bars hold.**", ""]
    lines += [f"- MISS: {f.title}: {f.value_text}, bar {f.bar_text}" for f in missed]
    lines += [""] if missed else []
    for result in results:
        lines += [f"## {result.name}", "", *_format_table(result.findings), ""]
        lines += _format_notes(result.findings)
        lines += [f"Measured in {result.seconds:.0f} s.", ""]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def format_milliseconds(value: float) -> str:
    """Return a duration as text, three significant digits."""
    return _format_quantity(value, "ms")


def _format_quantity(value: float, unit: Unit) -> str:
    if unit == "recall":
        return f"{value:.3f}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}{'' if unit == 'x' else ' '}{unit}"


def _format_table(findings: Iterable[Finding]) -> list[str]:
    rows = ["| measurement | gateway | against | value | bar | verdict |", "|---|---|---|---|---|---|"]
    rows += [
        f"| {f.title} | {f.gateway} | {f.against} | {f.value_text} | {f.bar_text} | {f.verdict} |"
        for f in findings
    ]
    return rows


def _format_notes(findings: Iterable[Finding]) -> list[str]:
    notes = [f"- {f.title}: {f.note}" for f in findings if f.note]
    return [*notes, ""] if notes else []


def _describe_environment(settings: BenchSettings) -> list[str]:
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _VERSIONS_OF)
    memory = psutil.virtual_memory().total / 2**30
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    system = f"{platform.system()} {platform.release()}"
    machine = f"{_read_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {system}"
    fresh = f"{settings.fresh_rows:,} rows upserted by Lance's own writer"
    spread = f"{settings.generations} generations over {settings.regions} regions"
    return [
        f"- Date: {now}; commit {_read_commit()}",
        f"- Machine: {machine}; load average at the end {load}",
        f"- Versions: Python {platform.python_version()}, {versions}",
        f"- Table: {settings.rows:,} base rows; {fresh}, {spread}",
        f"- Command: `{' '.join(['python -m benchmarks', *sys.argv[1:]])}`",
        "- Times are medians of interleaved rounds, ratios are medians of the rounds' own ratios.",
        "- Both sides find their files in the page cache.",
    ]


def _read_commit() -> str:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(REPOSITORY), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    revision = git("rev-parse", "--short=12", "HEAD") or "unknown"
    written = (":(exclude)benchmarks/RESULTS.md", ":(exclude)docs/plots")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", *written)
    return f"{revision} with local changes" if changed else revision


def _read_processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
