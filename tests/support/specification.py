"""The rules of `docs/specification.md`: what implements each, and which test proves it."""

import importlib
import inspect
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/specification.md"
_ROW = re.compile(
    r"\| (?P<rule>[^|]+) \| (?P<section>[^|]+) \| `(?P<function>[\w.]+)` \| `(?P<test>[\w./:]+)` \|"
)
_HEADS = ("| Rule |", "|---|---|---|---|")


@dataclass(frozen=True)
class Rule:
    """One row of a table."""

    text: str
    function: str
    test: str


def _read_rules() -> list[Rule]:
    lines = [one for one in PAGE.read_text().splitlines() if one.count("|") == 5]
    matches = [(one, _ROW.fullmatch(one)) for one in lines if not one.startswith(_HEADS)]
    malformed = [line for line, match in matches if match is None]
    assert not malformed, f"not of the form | rule | section | `function` | `test` |: {malformed}"
    return [
        Rule(match["rule"], match["function"], match["test"]) for _, match in matches if match is not None
    ]


RULES = _read_rules()


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


def find_codes(dotted: str) -> frozenset[CodeType]:
    """Return the code of a function, or of the methods of a class, any of which is a use of the class."""
    found = resolve(dotted)
    members = list(vars(found).values()) if inspect.isclass(found) else [found]
    codes = set()
    for member in members:
        inner = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
        code = getattr(inspect.unwrap(inner) if callable(inner) else inner, "__code__", None)
        if code is not None:
            codes.add(code)
    return frozenset(codes)


def list_proven(test: str) -> list[Rule]:
    """Return the rules that a test proves, by the id of the test without its parameters."""
    return [rule for rule in RULES if rule.test == test]


@contextmanager
def watch_calls(wanted: set[CodeType]) -> Iterator[set[CodeType]]:
    """Yield codes that were not run yet: those that run meanwhile, in any thread that starts, are removed."""
    missing = set(wanted)

    def notice(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            missing.discard(frame.f_code)
            if not missing:
                sys.setprofile(None)

    threading.setprofile(notice)
    sys.setprofile(notice)
    try:
        yield missing
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
