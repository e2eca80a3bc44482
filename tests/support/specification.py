"""The rules of `docs/specification.md`: what implements each, and which test proves it."""

import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/specification.md"
_ROW = re.compile(
    r"\| (?P<rule>[^|]+) \| (?P<section>[^|]+) \| `(?P<function>[\w.]+)` \| `(?P<test>[\w./:]+)` \|"
)
_INNER = ("__func__", "fget", "func")
"""Where methods of classes, properties and cached properties have their functions."""
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
            found: object = importlib.import_module(".".join(["lance_gateway", *names[:split]]))
        except ModuleNotFoundError:
            continue
        for name in names[split:]:
            found = inspect.getattr_static(found, name)
        return found
    raise LookupError(dotted)


def find_functions(dotted: str) -> list[FunctionType]:
    """Return a function, or the methods of a class, any of which is a use of the class."""
    found = resolve(dotted)
    members = list(vars(found).values()) if inspect.isclass(found) else [found]
    functions = []
    for member in members:
        inner = (
            getattr(member, "__func__", None)
            or getattr(member, "fget", None)
            or getattr(member, "func", member)
        )
        function = inspect.unwrap(inner) if callable(inner) else inner
        if isinstance(function, FunctionType) and not function.__code__.co_freevars:
            functions.append(function)
    return functions


def list_proven(test: str) -> list[Rule]:
    """Return the rules that a test proves, by the id of the test without its parameters."""
    return [rule for rule in RULES if rule.test == test]


@contextmanager
def watch_calls(functions: Iterable[FunctionType]) -> Iterator[set[FunctionType]]:
    """Yield the functions that were called meanwhile, in any thread.

    The code of a function is exchanged, since other modules have imported the function itself.
    """
    called: set[FunctionType] = set()
    with ExitStack() as stack:
        for function in functions:
            stack.enter_context(_watch(function, called))
        yield called


@contextmanager
def _watch(function: FunctionType, called: set[FunctionType]) -> Iterator[None]:
    code, defaults, by_name = function.__code__, function.__defaults__, function.__kwdefaults__
    original = FunctionType(code, function.__globals__, function.__name__, defaults)
    original.__kwdefaults__ = by_name

    def call(*args: object, **kwargs: object) -> object:
        called.add(function)
        return original(*args, **kwargs)

    name = f"_watched_{id(function)}"
    function.__globals__[name] = call
    stand_in: dict[str, FunctionType] = {}
    exec(f"def call(*args, **kwargs): return {name}(*args, **kwargs)", stand_in)
    function.__defaults__ = function.__kwdefaults__ = None
    function.__code__ = stand_in["call"].__code__
    try:
        yield
    finally:
        function.__code__, function.__defaults__, function.__kwdefaults__ = code, defaults, by_name
