"""What `lance_changes` needs to go on from a state stays as long as it is asked to."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from lance_gateway.memwal.errors import InvalidInputError, PreconditionError
from lance_gateway.pipeline.cleaning import CleanPolicy
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.past.noted_tables import write_token
from tests.support.lake.cleaning import NEWEST_ONLY, CleanedTable, Open

KEPT = replace(NEWEST_ONLY, keep_changes_seconds=7200.0)


def note(root: Path) -> str:
    catalog = Catalog.open(str(root))
    table = catalog.table("t")
    token = write_token(table.take_snapshot(table.assignments(table.base(), "strong").region_ids))
    catalog.close()
    return token


def test_tokens_last_as_long_as_changes_are_kept(kept: CleanedTable, root: Path, open_engine: Open) -> None:
    """The token has a generation, and a row in the log, that are merged behind it."""
    token, version = note(root), kept.table.dataset().version
    kept.delete(9)
    kept.flush()
    kept.merge(4)
    kept.write_generation("newest")
    kept.merge(5)
    kept.table.dataset().optimize.compact_files()

    def tell(mode: str, since: str) -> Counter[str]:
        sql = f"SELECT _change FROM lance_changes('t', since => {since}, mode => '{mode}')"
        return Counter(open_engine(root).execute(sql).read_all().column(0).to_pylist())

    net = {"update_before": 4, "update_after": 4, "delete": 1}
    for hours in (1.0, 1.5, 1.9):
        kept.clean(KEPT, hours=hours)
        assert tell("net", f"'{token}'") == net
        assert tell("all", f"'{token}'") == net
        # The third generation and what was in the log alone came after the version.
        assert tell("all", str(version)) == {"insert": 1, "update_before": 8, "update_after": 8, "delete": 1}
    kept.check(open_engine(root))
    for hours in (3.0, 6.0):
        kept.clean(KEPT, hours=hours)
    for mode in ("net", "all"):
        with pytest.raises(PreconditionError, match=r"cleaned up.*begin again, since => "):
            tell(mode, f"'{token}'")
    assert len(kept.list_positions()) == 5, "fences, and the end"


def test_a_time_that_cannot_be() -> None:
    with pytest.raises(InvalidInputError, match=r"changes can't be kept for -1 s: give 0 or more"):
        CleanPolicy(keep_changes_seconds=-1)
