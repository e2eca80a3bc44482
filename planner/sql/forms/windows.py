"""Windows: frames that leave out rows, and windows that begin with the name of another one."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.sql.tree.tree import Tree, read_name

_PARTS: Final = ("partition_by", "order", "spec")


def frame_exclusions(tree: Tree) -> None:
    """Leave EXCLUDE NO OTHERS out of window frames, which is the default.

        SELECT sum(n) OVER (ORDER BY id ROWS 1 PRECEDING EXCLUDE NO OTHERS) FROM t
    ->  SELECT sum(n) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t

    Raises:
        UnsupportedError: a frame excludes rows.
    """
    for frame in tree.find_all(exp.WindowSpec):
        exclusion = frame.args.get("exclude")
        if exclusion is None:
            continue
        if exclusion.name.upper() != "NO OTHERS":
            raise tree.error(
                frame.parent or frame,
                "EXCLUDE in a window frame is not supported: subtract the value of the row, as in "
                "sum(n) OVER (..) - n, or use two frames, before and behind the row",
                UnsupportedError,
            )
        frame.set("exclude", None)
        tree.note_change()


def named_windows(tree: Tree) -> None:
    """Write out windows that begin with the name of another one, which DataFusion ignores.

        SELECT sum(n) OVER (w ORDER BY id) FROM t WINDOW w AS (PARTITION BY k)
    ->  SELECT sum(n) OVER (PARTITION BY k ORDER BY id) FROM t WINDOW w AS (PARTITION BY k)

    Raises:
        InvalidInputError: there is no window of that name, or it can't be added to.
    """
    for select in tree.find_all(exp.Select):
        definitions: list[exp.Window] = select.args.get("windows") or []
        named: dict[str, exp.Window] = {}
        for window in definitions:  # may name those before it
            _inherit(tree, window, named)
            named[read_name(window.this)] = window
        for window in select.find_all(exp.Window):
            if window.args.get("over") and window.parent_select is select:
                _inherit(tree, window, named)


def _inherit(tree: Tree, window: exp.Window, named: dict[str, exp.Window]) -> None:
    name = window.args.get("alias")
    if name is None:
        return
    base, own = named.get(read_name(name)), _find_parts(window)
    if base is None:
        raise tree.error(name, f"There is no window {read_name(name)!r}; it is named")
    what = ""
    if "partition_by" in own:
        what = "its own PARTITION BY"
    elif "order" in own and base.args.get("order"):
        what = "a second ORDER BY"
    elif own and base.args.get("spec"):
        what = "more than its name, since it has a frame"
    if what:
        raise tree.error(name, f"A window that begins with {read_name(name)!r} can't have {what}")
    for part in _find_parts(base):
        value = base.args[part]
        window.set(part, [one.copy() for one in value] if isinstance(value, list) else value.copy())
    window.set("alias", None)
    tree.note_change()


def _find_parts(window: exp.Window) -> list[str]:
    return [part for part in _PARTS if window.args.get(part)]
