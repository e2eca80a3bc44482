"""Create a table in one step, and delete it.

Lance creates a base table with a MemWAL in two commits; a crash between them leaves a table that can neither
be written nor created. So both commits happen in a scratch directory, and the last manifest becomes version 1
of the table: a file that only one process can create.

When Lance overwrites a table, it removes the MemWAL index and leaves the regions, which then belong to former
contents. Regions that exist before a table gets a MemWAL are therefore given up, if requested, or refused.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import lance
import pyarrow as pa
from lance.dataset import Index
from lance.fragment import FragmentMetadata

from lance_gateway.memwal.base.index_details import MemWalIndexDetails, RegionSpec, build_index
from lance_gateway.memwal.base.table_mark import mark_table, read_table_mark, unmark_table
from lance_gateway.memwal.base.versions import renumber_manifest
from lance_gateway.memwal.columns.lance_rows import export_rows
from lance_gateway.memwal.creating.columns import list_key_columns
from lance_gateway.memwal.creating.region_by import MemWalOptions, list_region_columns, parse_region_fields
from lance_gateway.memwal.errors import InvalidInputError, UnavailableError, UnsupportedError, shorten_error
from lance_gateway.memwal.regions.generation_numbers import EVERYTHING
from lance_gateway.memwal.regions.manifest import RegionManifest, commit_manifest, read_latest_manifest
from lance_gateway.memwal.storage.files import (
    MEM_WAL,
    VERSIONS,
    Storage,
    base_manifest_paths,
    parse_base_manifest_version,
)

_TRANSACTIONS: Final = "_transactions"
_MANIFEST: Final = ".manifest"
_SWEEPS: Final = 10
_ATTEMPTS: Final = 16
_NO_CONFIG: Final[Mapping[str, str | None]] = MappingProxyType({})


@dataclass(frozen=True)
class GivenUpRegions:
    """Regions whose rows do not count any more.

    Attributes:
        region_ids: of all of them.
        spec_id: the highest of the region specs that they follow; 0 for none.
    """

    region_ids: tuple[str, ...] = ()
    spec_id: int = 0


def table_exists(storage: Storage) -> bool:
    """Return whether a directory holds any version of a table."""
    return any(entry.name.endswith(_MANIFEST) for entry in storage.list(VERSIONS))


def write_fragments(
    storage: Storage, rows: pa.RecordBatchReader, schema: pa.Schema
) -> list[FragmentMetadata]:
    """Write rows below a table's directory; they are invisible until they are committed.

    Args:
        storage: directory of the table; what else is there makes no difference.
        rows: columns of the table; blobs are bytes.
        schema: of the table, as it is stored.
    """
    options = dict(storage.options) or None
    written: list[FragmentMetadata] = lance.fragment.write_fragments(
        export_rows(rows, schema), storage.uri, schema=schema, mode="overwrite", storage_options=options
    )
    return written


def create_dataset(
    storage: Storage,
    schema: pa.Schema,
    fragments: Sequence[FragmentMetadata] = (),
    options: MemWalOptions | None = None,
    *,
    config: Mapping[str, str | None] = _NO_CONFIG,
    stable_row_ids: bool = False,
    rehearse: bool = False,
) -> bool:
    """Create a table in one step unless it exists.

    Args:
        storage: directory of the table.
        schema: as `build_stored_schema` returns it.
        fragments: first rows, as `write_fragments` returns them.
        options: how its MemWAL is set up; None for a table without.
        config: entries of its configuration.
        stable_row_ids: whether rows keep their ids when they are changed.
        rehearse: only find out whether it could be made; nothing is written to the table's directory.

    Returns:
        True when this call made it; False when a table is there.

    Raises:
        LanceGatewayError: the options don't fit the schema.
        UnsupportedError: Lance refuses the schema.
    """
    # Regions that are there before there is a table are left of one whose dropping was cut short. They are
    # looked at first, so that no region of a table that somebody else makes meanwhile is among them (ADR 21).
    left = () if rehearse else storage.directories(MEM_WAL)
    mark = None if rehearse else read_table_mark(storage)
    if not rehearse and table_exists(storage):
        return False
    if mark is not None:
        unmark_table(storage)
    for region in left:
        storage.child(MEM_WAL, region).delete_all()
    with tempfile.TemporaryDirectory(prefix="lance-gateway-") as directory:
        try:
            dataset = lance.LanceDataset.commit(
                directory,
                lance.LanceOperation.Overwrite(schema, list(fragments)),
                enable_stable_row_ids=stable_row_ids,
            )
        except (OSError, ValueError) as error:
            msg = f"the table can't be created: {shorten_error(error)}"
            raise UnsupportedError(msg) from error
        if options is not None:
            operation = lance.LanceOperation.CreateIndex([build_mem_wal_index(dataset, options)], [])
            dataset = lance.LanceDataset.commit(directory, operation, read_version=dataset.version)
        if rehearse:
            return True
        if config:
            dataset.update_config(dict(config))
        scratch = Path(directory)
        manifest = (scratch / base_manifest_paths(dataset.version)[0]).read_bytes()
        writes = [
            partial(storage.put, f"{_TRANSACTIONS}/{transaction.name}", transaction.read_bytes())
            for transaction in (scratch / _TRANSACTIONS).iterdir()
        ]
        storage.each_request(lambda write: write(), [partial(mark_table, storage), *writes])
    return storage.put_if_absent(base_manifest_paths(1)[0], renumber_manifest(manifest, 1, source=directory))


def build_mem_wal_index(
    dataset: Any,  # noqa: ANN401 - lance types
    options: MemWalOptions,
    given_up: GivenUpRegions = GivenUpRegions(),
) -> Index:
    """Build the MemWAL index of a dataset.

    Args:
        dataset: the `lance.LanceDataset` that it is made for.
        options: how it is set up.
        given_up: regions of an earlier MemWAL. All of them is recorded as merged, and the ids of new regions
            are others, since these follow another region spec.

    Raises:
        LanceGatewayError: the options don't fit the dataset.
    """
    ids = {field.name(): field.id() for field in dataset.lance_schema.fields()}
    spec = RegionSpec(given_up.spec_id + 1, parse_region_fields(options.region_by, ids, dataset.schema))
    if not options.keys_never_move:
        _check_region_columns(spec, list_key_columns(dataset.schema), {at: name for name, at in ids.items()})
    buckets = [field.parameters.get("num_buckets") for field in spec.fields]
    count = int(buckets[0] or 0) if len(buckets) == 1 else 0
    details = MemWalIndexDetails(
        num_regions=1 if spec.fields[0].transform == "unsharded" else count,
        region_specs=(spec,),
        maintained_indexes=options.maintained_indexes or (),
        maintain_all_indexes=options.maintained_indexes is None,
        merged_generations=dict.fromkeys(given_up.region_ids, EVERYTHING),
        writer_config_defaults=options.writer_defaults,
    )
    return build_index(str(uuid.uuid4()), dataset.version, details.encode())


def delete_table(storage: Storage, keep: Iterable[str] = ()) -> None:
    """Delete a table's files; safe to repeat.

    The manifests go first, the newest last: whoever reads meanwhile finds the newest version or none.

    Args:
        storage: directory of the table.
        keep: files that stay, by their paths below the directory.

    Raises:
        UnavailableError: storage failed; what is left is not a table if the manifests are gone.
        UnsupportedError: a DynamoDB table knows its versions.
    """
    if not storage.committed_by:
        # First: writers must not take what is made after a drop that is cut short for it (ADR 33).
        unmark_table(storage)
    for _ in range(_SWEEPS):
        manifests = [entry.name for entry in storage.list(VERSIONS) if entry.name.endswith(_MANIFEST)]
        if not manifests:
            break
        if storage.committed_by:
            msg = (
                f"{storage.uri} can't be dropped here: Lance leaves its versions in the DynamoDB table, and "
                "no table of that name could be made again. Delete the items whose base_uri is "
                f"{storage.root.partition('/')[2]!r} and then the files"
            )
            raise UnsupportedError(msg)
        # A commit that was under way may add one while this runs. The newest version goes last (ADR 21).
        for name in sorted(manifests, key=lambda manifest: parse_base_manifest_version(manifest) or 0):
            storage.delete(f"{VERSIONS}/{name}")
    storage.delete_all(keep)


def _check_region_columns(spec: RegionSpec, key: Sequence[str], names: Mapping[int, str]) -> None:
    if not key:
        return
    outside = [
        names.get(column, str(column))
        for column in sorted(list_region_columns(spec))
        if names.get(column) not in key
    ]
    if outside:
        msg = (
            f"region_by uses {', '.join(outside)}, which is not part of the primary key ({', '.join(key)}): "
            "all versions of a key must be in one region. Use key columns, add it to the key, or promise by "
            "keys_never_move = true that rows of one key always agree on it"
        )
        raise InvalidInputError(msg)


def give_up_regions(table: Storage, region_ids: Iterable[str]) -> GivenUpRegions:
    """Seal regions for good; nothing is removed; safe to repeat.

    No writer can claim them any more. One that holds a region can still append to its log, but what it
    flushes is refused.

    Args:
        table: its directory; the table has no MemWAL.
        region_ids: of the regions.

    Raises:
        LanceGatewayError: one can't be read or sealed.
    """
    sealed = table.each(lambda one: _seal_region(table, one), tuple(region_ids))
    return GivenUpRegions(
        tuple(manifest.region_id for manifest in sealed),
        max((manifest.region_spec_id for manifest in sealed), default=0),
    )


def _seal_region(table: Storage, region_id: str) -> RegionManifest:
    for _ in range(_ATTEMPTS):
        newest = read_latest_manifest(table, region_id)
        if newest is not None and newest.sealed:
            return newest
        if newest is None:
            following = RegionManifest(region_id, 1, 1, 0, 0, 1, sealed=True)
        else:
            following = replace(
                newest, version=newest.version + 1, writer_epoch=newest.writer_epoch + 1, sealed=True
            )
        if commit_manifest(table, following):
            return following
    msg = f"{table.uri}: region {region_id} can't be sealed, since others write to it: stop them, and retry"
    raise UnavailableError(msg)
