"""How the metadata commands narrow a search: by name, or by pattern."""

import re
from typing import TypeVar

from google.protobuf.message import Message

M = TypeVar("M", bound=Message)


def matches(name: str, pattern: str) -> bool:
    r"""Whether `name` matches a search pattern: "%" any characters, "_" one, "\" takes the next literally.

    >>> matches("orders", "ord%"), matches("orders", "o_ders"), matches("orders", "ord")
    (True, True, False)
    >>> matches("a_b", r"a\_b"), matches("axb", r"a\_b")
    (True, False)
    """
    segments: list[list[str]] = [[]]
    needed = 0
    for found in re.finditer(r"\\.|.", pattern, re.DOTALL):
        mark = found[0]
        if mark == "%":
            # Several in a row mean no more than one.
            if segments[-1] or len(segments) == 1:
                segments.append([])
        else:
            literal = mark[1:] if len(mark) > 1 else mark
            segments[-1].append("." if mark == "_" else re.escape(literal))
            needed += 1
            if needed > len(name):
                return False
    first, *between = ("".join(segment) for segment in segments)
    if not between:
        return re.fullmatch(first, name, re.DOTALL) is not None
    last = between.pop()
    # The leftmost place of a segment is as good as any: atomic groups spare the search of all combinations.
    expression = first + "".join(f"(?>.*?{segment})" for segment in between) + ".*" + last
    return re.fullmatch(expression, name, re.DOTALL) is not None


def is_named(command: Message, field: str, name: str) -> bool:
    """Whether the field of a command names `name`; an unset field names everything, "" only the nameless."""
    return not command.HasField(field) or getattr(command, field) == name


def is_matched(command: Message, field: str, name: str) -> bool:
    """Whether the pattern in the field of a command matches `name`; an unset field matches everything."""
    return not command.HasField(field) or matches(name, getattr(command, field))


def lowered(command: M) -> M:
    """The command with the names and patterns that are in upper case in lower case."""
    copy = type(command)()
    copy.CopyFrom(command)
    for field, value in command.ListFields():
        if isinstance(value, str) and value.isupper():
            setattr(copy, field.name, value.lower())
    return copy
