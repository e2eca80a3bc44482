"""A region spec as the text that `region_by` takes."""

from __future__ import annotations

from collections.abc import Mapping

from memwal.index_details import RegionField, RegionSpec
from planner.tokens import fold, quote


def region_text(spec: RegionSpec, names: Mapping[int, str]) -> str:
    """What makes the same spec again.

    Args:
        spec: of a table.
        names: Lance field id -> column.
    """
    return ", ".join(_field_text(one, names) for one in spec.fields) or "unsharded"


def _field_text(field: RegionField, names: Mapping[int, str]) -> str:
    columns = [_spelt(names.get(source, f"field {source}")) for source in field.source_ids]
    if field.expression is not None:
        text = "'" + field.expression.replace("'", "''") + "'"
        return f"expression({', '.join([text, *columns])})"
    if not columns:
        return str(field.transform)
    return f"{field.transform}({', '.join([*columns, *field.parameters.values()])})"


def _spelt(name: str) -> str:
    return name if name.isidentifier() and name == fold(name) else quote(name)
