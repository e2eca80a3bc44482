"""Each workaround of a mistake of DataFusion is needed, and helps."""

import re
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.planner.bridge.plan_reading import WRONG_RULES
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner import workarounds
from tests.planner.titled import Case

CASES = list(workarounds.read_cases())
PLANNER = Path(workarounds.__file__).parents[2] / "planner"
NO_WORKAROUNDS = {
    # What calls the others, or looks for what rules have left.
    "joins",
    "mistaken_plans",
}
CHOSEN = {
    # Options that are no workarounds: types of texts, constants that leaves must not evaluate, and inputs of
    # joins, which are exchanged only where tables tell their numbers of rows.
    "join_reordering",
    "map_string_types_to_utf8view",
    "max_passes",
}


def named(case: tuple[str, Case]) -> str:
    return f"{case[0]}: {case[1]}"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    root = tmp_path_factory.mktemp("workarounds")
    for name, rows in workarounds.TABLES.items():
        lance.write_dataset(rows, root / f"{name}.lance", max_rows_per_file=max(1, rows.num_rows // 4))
    engine = QueryEngine(Catalog.open(str(root)), partitions=2)
    yield engine
    engine.close()


@pytest.mark.parametrize("case", CASES, ids=named)
def test_datafusion_alone_gets_it_wrong(case: tuple[str, Case]) -> None:
    file, (sql, right, *_) = case[0], case[1].parts
    # Which partition ends first decides some answers.
    if all(workarounds.run_bare(sql, partitions) == right for _ in range(20) for partitions in (1, 4)):
        pytest.fail(f"DataFusion gets it right: this part of the workaround {file} can go")


@pytest.mark.parametrize("case", CASES, ids=named)
def test_the_gateway_gets_it_right_or_refuses_it(engine: QueryEngine, case: tuple[str, Case]) -> None:
    sql, right, *refusals = case[1].parts
    if refusals:
        with pytest.raises((InvalidInputError, UnsupportedError), match=re.escape(refusals[0])):
            engine.execute(sql).read_all()
    else:
        assert workarounds.write_answer(sql, engine.execute(sql).read_all()) == right


def test_each_workaround_has_statements() -> None:
    modules = {file.stem for file in (PLANNER / "plans/checks").glob("*.py") if file.stem != "__init__"}
    contexts = (PLANNER / "plans/contexts.py").read_text()
    options = {name.rpartition(".")[2] for name in re.findall(r'"(datafusion\.[a-z0-9_.]+)"', contexts)}
    assert len(options) > len(CHOSEN)
    needed = (modules - NO_WORKAROUNDS) | (options - CHOSEN) | set(WRONG_RULES)
    assert needed <= {file.stem for file in workarounds.FILES}


def test_titles_differ() -> None:
    titles = [case.title for _, case in CASES]
    assert len(set(titles)) == len(titles)


def test_the_documentation_has_all_of_them() -> None:
    _, table, _ = workarounds.split_document()
    assert table == workarounds.make_documentation(), "run python -m tests.planner.workarounds"
