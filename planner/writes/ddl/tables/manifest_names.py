"""``ALTER TABLE t SET (v2_manifest_paths = true)``: names of manifests as Lance gives them today."""

from __future__ import annotations

from dataclasses import dataclass

from lance_gateway.memwal.base.manifest_names import OPTION, has_first_names, migrate_manifest_names
from lance_gateway.memwal.base.table_place import keep_in_place
from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.memwal.quantities import parse_truth
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.options import parse_value


@dataclass(frozen=True)
class RenameManifests:
    """SET (v2_manifest_paths = true)."""

    @staticmethod
    def parse(text: str) -> RenameManifests:
        """Read the value of the option.

        Raises:
            UnsupportedError: it is false.
        """
        if not parse_value(OPTION, text, parse_truth):
            raise UnsupportedError(f"{OPTION} can't be set to false: manifests keep the names that they have")
        return RenameManifests()

    def check(self, table: Table) -> bool:
        """Return whether a manifest has a name of the first scheme."""
        return has_first_names(table.storage)

    def apply(self, table: Table) -> None:
        """Rename the manifests."""
        with keep_in_place(table.storage):
            migrate_manifest_names(table.storage)
        table.base()
