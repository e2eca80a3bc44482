"""The text of statements that define tables and indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import util
from sqlalchemy.sql import compiler

NAME: Final = "lancegateway"
"""Of the dialect, and before its options (`lancegateway_with`): SQLAlchemy ends it at an underscore."""


class GatewayDdlCompiler(compiler.DDLCompiler):
    """Writes definitions.

    `Table(.., lancegateway_with={"region_by": "bucket(id, 16)"})` has its options behind `WITH`, and so has
    `Index(.., lancegateway_using="IVF_PQ", lancegateway_with={"metric": "cosine"})`.
    """

    def get_column_specification(self, column: sa.Column[Any], **kwargs: Any) -> str:
        """Write a column with its comment."""
        text = super().get_column_specification(column, **kwargs)
        return text if column.comment is None else f"{text} COMMENT {self._quote_text(column.comment)}"

    def post_create_table(self, table: sa.Table) -> str:
        """Write the options and the comment of a table."""
        text = self._write_options(table.dialect_options[NAME]["with"])
        return text if table.comment is None else f"{text} COMMENT {self._quote_text(table.comment)}"

    def visit_unique_constraint(self, constraint: sa.UniqueConstraint, **kw: Any) -> str:
        """Write a note of uniqueness, and warn: nobody enforces it."""
        text = super().visit_unique_constraint(constraint, **kw)
        if not text:
            return text
        names = ", ".join(column.name for column in constraint.columns)
        util.warn(
            f"UNIQUE ({names}) of table {constraint.table.name!r} is a note that the gateway does not "
            "enforce; a primary key keeps the newest row of each key"
        )
        return f"{text} NOT ENFORCED"

    def visit_foreign_key_constraint(self, constraint: sa.ForeignKeyConstraint, **kw: Any) -> str:
        """Write a foreign key, which nobody enforces."""
        return f"{super().visit_foreign_key_constraint(constraint, **kw)} NOT ENFORCED"

    def visit_create_index(self, create: Any, *args: Any, **kw: Any) -> str:
        """Write an index with its type and options."""
        index = create.element
        options = index.dialect_options[NAME]
        text: str = super().visit_create_index(create, *args, **kw)  # type: ignore[no-untyped-call]
        if options["using"] is not None:
            # The columns stand in the brackets at the end; names are quoted where they have some.
            head, _, columns = text.rpartition(" (")
            text = f"{head} USING {options['using']} ({columns}"
        return text + self._write_options(options["with"])

    def visit_drop_index(self, drop: Any, **kw: Any) -> str:
        """Write which table the index belongs to: others may have one of its name."""
        text: str = super().visit_drop_index(drop, **kw)  # type: ignore[no-untyped-call]
        return f"{text} ON {self.preparer.format_table(drop.element.table)}"

    def _write_options(self, options: Mapping[str, Any] | None) -> str:
        if not options:
            return ""
        return (
            f" WITH ({', '.join(f'{name} = {self._write_value(value)}' for name, value in options.items())})"
        )

    def _write_value(self, value: object) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value) if isinstance(value, int | float) else self._quote_text(str(value))

    def _quote_text(self, text: str) -> str:
        return str(self.sql_compiler.render_literal_value(text, sa.String()))
