"""Which scan of a run a leaf of DataFusion's plan is.

DataFusion's bindings tell nothing of a leaf but the line that they print. Where two scans have the same line,
they have the same tree, and nothing but what is shown depends on it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lance_gateway.planner.scans.query_run import QueryRun, TableScan
from lance_gateway.planner.scans.resident_scan import ResidentScan

_LEAF = re.compile(r"^(?P<indent>\s*)DatasetExec: number_of_fragments=(?P<fragments>\d+)(?P<rest>.*)$")
_RESIDENT = re.compile(
    r"^(?P<indent>\s*)DataSourceExec: partitions=\d+, partition_sizes=\[(?P<sizes>[\d, ]+)\]"
)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of DataFusion's plan.

    Attributes:
        line: as it is to be shown.
        indent: of the line.
        scan: that it is; None for one that is not a table of the catalog.
    """

    line: str
    indent: str
    scan: TableScan | None


def find_leaf(line: str, waiting: list[TableScan], partitions: int) -> Leaf | None:
    """Return the leaf that a line of DataFusion's plan is; None if it is another node.

    Args:
        line: of the plan.
        waiting: scans whose leaves have not been found; the one that is found is removed.
        partitions: of every scan; larger numbers of fragments only distinguish tables.
    """
    leaf = _LEAF.match(line)
    if leaf is not None:
        fragments = int(leaf["fragments"])
        scan = next((one for one in waiting if _is_leaf_of(one, fragments, leaf["rest"])), None)
        shown = min(fragments, partitions)
        line = f"{leaf['indent']}DatasetExec: number_of_fragments={shown}{leaf['rest']}"
    else:
        leaf = _RESIDENT.match(line)
        if leaf is None:
            return None
        sizes = tuple(map(int, leaf["sizes"].split(", ")))
        residents = (one for one in waiting if isinstance(one, ResidentScan))
        scan = next((one for one in residents if one.partition_sizes == sizes), None)
    if scan is not None:
        waiting.remove(scan)
    return Leaf(line, leaf["indent"], scan)


def restore_lines(text: str, run: QueryRun, partitions: int) -> str:
    """Return a plan with one line for each node, and the true numbers of inputs.

    Arrow prints lists of values in lines of their own, and larger numbers distinguish tables.
    """
    for scan in run.scans:
        condition = str(scan.expression)
        if "\n" in condition:
            text = text.replace(condition, _join_lines(condition))
    for extra in range(partitions + 1, partitions + 1 + len({scan.table for scan in run.scans})):
        text = text.replace(f"input_partitions={extra}", f"input_partitions={partitions}")
    return text


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def _is_leaf_of(scan: TableScan, fragments: int, rest: str) -> bool:
    """Return whether a line of DataFusion's plan is this scan.

    Scans that match the same line have the same tree.
    """
    projection = f"projection=[{', '.join(scan.columns)}]"
    condition = "" if scan.expression is None else f"filter_expr={_join_lines(str(scan.expression))}"
    return scan.partitions == fragments and projection in rest and condition in rest
