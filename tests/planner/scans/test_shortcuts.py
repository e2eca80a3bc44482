"""The option `shortcuts`: its values, and that each shortcut is taken only where it is on."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from lance_gateway.gateway.protocol.commands import decode_settings, encode_settings
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.scans.settings import (
    ALL_SHORTCUTS,
    DEFAULT_SETTINGS,
    NO_SHORTCUTS,
    Shortcut,
    exclude_shortcuts,
    format_shortcuts,
    parse_shortcuts,
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("all", ALL_SHORTCUTS),
        (" None ", NO_SHORTCUTS),
        ("direct_scans, kept_columns", frozenset({Shortcut.DIRECT_SCANS, Shortcut.KEPT_COLUMNS})),
        (",".join(Shortcut), ALL_SHORTCUTS),
    ],
)
def test_the_option_names_what_stays_on(text: str, meant: frozenset[Shortcut]) -> None:
    assert parse_shortcuts(text) == meant
    assert parse_shortcuts(format_shortcuts(meant)) == meant


@pytest.mark.parametrize("text", ["", "direct_scans,", "detours", "all,none", "all,direct_scans"])
def test_an_unknown_name_is_refused_with_those_that_exist(text: str) -> None:
    with pytest.raises(
        InvalidInputError, match=r"there is no shortcut '.*give 'all', 'none', or some of direct"
    ):
        parse_shortcuts(text)
    with pytest.raises(InvalidInputError, match="there is no shortcut 'detours'; there are direct_scans"):
        exclude_shortcuts(frozenset({"detours", "direct_scans"}))


@pytest.mark.parametrize("shortcuts", [ALL_SHORTCUTS, NO_SHORTCUTS, *(frozenset({one}) for one in Shortcut)])
def test_tickets_carry_the_option(shortcuts: frozenset[Shortcut]) -> None:
    settings = replace(DEFAULT_SETTINGS, shortcuts=shortcuts)
    assert decode_settings(encode_settings(settings)) == settings


def test_the_documentation_lists_every_shortcut() -> None:
    documented = (Path(__file__).parents[3] / "docs" / "sql.md").read_text()
    _, _, section = documented.partition("## Shortcuts\n")
    listed = re.findall(r"^\| `(\w+)` \|", section.partition("\n## ")[0], re.MULTILINE)
    assert sorted(listed) == sorted(Shortcut)
