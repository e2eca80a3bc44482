"""`docs/specification.md` names only functions and tests that exist."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/specification.md"
_ROW = re.compile(
    r"\| (?P<rule>[^|]+) \| (?P<section>[^|]+) \| `(?P<function>[\w.]+)` \| `(?P<test>[\w./:]+)` \|"
)
_HEADS = ("| Rule |", "|---|---|---|---|")


def rows() -> list[re.Match[str]]:
    """Return the rows of all tables of rules."""
    lines = [one for one in PAGE.read_text().splitlines() if one.count("|") == 5]
    matches = [(one, _ROW.fullmatch(one)) for one in lines if not one.startswith(_HEADS)]
    malformed = [line for line, match in matches if match is None]
    assert not malformed, f"not of the form | rule | section | `function` | `test` |: {malformed}"
    return [match for _, match in matches if match is not None]


ROWS = rows()


def resolve(dotted: str) -> object:
    """Return the object that a dotted path of modules, classes and functions names."""
    names = dotted.split(".")
    for split in range(len(names) - 1, 0, -1):
        try:
            found: object = importlib.import_module(".".join(names[:split]))
        except ModuleNotFoundError:
            continue
        for name in names[split:]:
            found = inspect.getattr_static(found, name)
        return found
    raise LookupError(dotted)


@cache
def names_of_tests(path: Path) -> frozenset[str]:
    """Return the names of a file's tests; those in classes as `Class::test`."""

    def walk(body: list[ast.stmt], prefix: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from walk(node.body, f"{prefix}{node.name}::")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{prefix}{node.name}"

    return frozenset(walk(ast.parse(path.read_text()).body, ""))


def test_every_subject_has_rules():
    subjects = re.findall(r"^## (.+)$", PAGE.read_text(), re.MULTILINE)
    assert len(subjects) > 10
    assert len(ROWS) > 3 * len(subjects)


@pytest.mark.parametrize("dotted", sorted({row["function"] for row in ROWS}))
def test_a_named_function_exists(dotted: str):
    found = resolve(dotted)
    assert callable(found) or isinstance(found, staticmethod), f"{dotted} is no function and no class"
    # A name that a module merely imports would hide where the rule stands.
    module = inspect.getmodule(inspect.unwrap(found.__func__ if isinstance(found, staticmethod) else found))
    assert module is not None
    assert dotted.startswith(f"{module.__name__}."), f"{dotted} is defined in {module.__name__}"


@pytest.mark.parametrize("test", sorted({row["test"] for row in ROWS}))
def test_a_named_test_exists(test: str):
    path, _, name = test.partition("::")
    assert (ROOT / path).is_file(), f"{path} does not exist"
    assert name in names_of_tests(ROOT / path), f"{path} has no test {name}"
    assert name.rpartition("::")[2].startswith("test_")
