"""`docs/specification.md` names what exists; a test that it names runs its function (`conftest.py`)."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.specification import PAGE, ROOT, RULES, find_functions, resolve


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
    assert len(RULES) > 3 * len(subjects)


@pytest.mark.parametrize("dotted", sorted({rule.function for rule in RULES}))
def test_a_named_function_exists(dotted: str):
    found = resolve(dotted)
    assert callable(found) or isinstance(found, staticmethod), f"{dotted} is not a function and no class"
    assert find_functions(dotted), f"{dotted} has no code of its own that a test could run"
    # A name that a module merely imports would hide where the rule stands.
    module = inspect.getmodule(inspect.unwrap(found.__func__ if isinstance(found, staticmethod) else found))
    assert module is not None
    assert f"lance_gateway.{dotted}".startswith(f"{module.__name__}."), (
        f"{dotted} is defined in {module.__name__}"
    )


@pytest.mark.parametrize("test", sorted({rule.test for rule in RULES}))
def test_a_named_test_exists(test: str):
    path, _, name = test.partition("::")
    assert (ROOT / path).is_file(), f"{path} does not exist"
    assert name in names_of_tests(ROOT / path), f"{path} has no test {name}"
    assert name.rpartition("::")[2].startswith("test_")
