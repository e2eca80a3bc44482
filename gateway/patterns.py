"""How the metadata commands narrow a search: by name, or by pattern."""

import re

from google.protobuf.message import Message


def matches(name: str, pattern: str) -> bool:
    r"""Whether `name` matches a search pattern: "%" any characters, "_" one, "\" takes the next literally.

    >>> matches("orders", "ord%"), matches("orders", "o_ders"), matches("orders", "ord")
    (True, True, False)
    >>> matches("a_b", r"a\_b"), matches("axb", r"a\_b")
    (True, False)
    """
    wildcards = {"%": ".*", "_": "."}
    expression = "".join(
        re.escape(mark[1:])
        if mark.startswith("\\") and len(mark) > 1
        else wildcards.get(mark, re.escape(mark))
        for mark in re.findall(r"\\.|.", pattern, re.DOTALL)
    )
    return re.fullmatch(expression, name, re.DOTALL) is not None


def is_named(command: Message, field: str, name: str) -> bool:
    """Whether the field of a command names `name`; an unset field names everything, "" only the nameless."""
    return not command.HasField(field) or getattr(command, field) == name


def is_matched(command: Message, field: str, name: str) -> bool:
    """Whether the pattern in the field of a command matches `name`; an unset field matches everything."""
    return not command.HasField(field) or matches(name, getattr(command, field))
