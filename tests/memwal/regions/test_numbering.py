"""Numbers of generations, beside what the base table counts as merged."""

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from lance_gateway.memwal.base.index_details import MemWalIndexDetails
from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.memwal.regions.generation_numbers import (
    EVERYTHING,
    RegionMismatchError,
    check_generations,
    check_listed,
    check_not_restarted,
    choose_first_generation,
    is_given_up,
    is_restarted,
)
from lance_gateway.memwal.regions.manifest import FlushedGeneration, RegionManifest, commit_manifest
from lance_gateway.memwal.storage.files import Storage

REGION = "0b0c7a52-53a9-4d6c-8f0e-5a6b1c1f0a11"


def manifest(current: int, *flushed: int, sealed: bool = False) -> RegionManifest:
    generations = tuple(FlushedGeneration(number, f"x_gen_{number}") for number in flushed)
    return RegionManifest(REGION, 1, 0, 0, 0, current, generations, sealed=sealed)


@pytest.fixture
def table(tmp_path: Path) -> Storage:
    return Storage.open(str(tmp_path / "t.lance"))


def test_a_region_begins_above_what_was_merged_of_its_id() -> None:
    details = MemWalIndexDetails(merged_generations={REGION: 7, "gone": EVERYTHING, "last": EVERYTHING - 1})
    assert choose_first_generation(details, REGION) == 8
    assert choose_first_generation(details, "new") == 1
    assert choose_first_generation(details, "last") == EVERYTHING == 2**63 - 1
    with pytest.raises(PreconditionError, match="region gone was given up"):
        choose_first_generation(details, "gone")


@pytest.mark.parametrize(("current", "merged", "is_below"), [(3, 2, False), (3, 3, True), (3, 4, True)])
def test_the_next_generation_is_above_those_that_are_merged(
    table: Storage, current: int, merged: int, *, is_below: bool
) -> None:
    open_region, sealed = manifest(current), manifest(current, sealed=True)
    assert is_restarted(open_region, merged) is is_below
    assert is_given_up(sealed, merged) is is_below
    assert not is_given_up(open_region, merged)
    assert not is_restarted(sealed, merged)
    check_not_restarted(table, sealed, merged)
    if is_below:
        with pytest.raises(RegionMismatchError, match=f"next generation of region {REGION} is 3"):
            check_not_restarted(table, open_region, merged)
    else:
        check_not_restarted(table, open_region, merged)


@pytest.mark.parametrize(
    ("current", "flushed", "merged"),
    [
        (1, (), 0),
        (3, (1, 2), 0),
        (3, (2,), 1),
        (3, (1, 2), 1),
        (3, (), 2),
        (3, (1, 2), 2),
        (3, (), 5),
        (3, (), EVERYTHING),
    ],
)
def test_generations_are_listed_or_merged(
    table: Storage, current: int, flushed: tuple[int, ...], merged: int
) -> None:
    check_listed(table, manifest(current, *flushed), merged)


@pytest.mark.parametrize(
    ("current", "flushed", "merged", "gone"),
    [
        (2, (), 0, "1"),
        (3, (2,), 0, "1"),
        (3, (1,), 0, "2"),
        (3, (1,), 1, "2"),
        (6, (1, 2, 4), 2, "3, 5"),
    ],
)
def test_generations_that_are_neither_are_named(
    table: Storage, current: int, flushed: tuple[int, ...], merged: int, gone: str
) -> None:
    with pytest.raises(
        RegionMismatchError, match=f"generations up to {merged} .* generations {gone} are gone"
    ):
        check_listed(table, manifest(current, *flushed), merged)


def test_regions_are_compared_with_the_base_table_all_at_once(table: Storage) -> None:
    sealed = replace(manifest(3, sealed=True), region_id=str(uuid.UUID(int=1)))
    flushed = replace(manifest(3, 2), region_id=str(uuid.UUID(int=2)))
    merged = {sealed.region_id: EVERYTHING, flushed.region_id: 1}
    assert check_generations(table, [sealed, flushed], merged) == {sealed.region_id}
    assert check_generations(table, [manifest(1)], {}) == frozenset()
    with pytest.raises(RegionMismatchError, match="generations 1 are gone"):
        check_generations(table, [sealed, flushed], {sealed.region_id: EVERYTHING})


def test_a_region_that_was_merged_since_its_manifest_was_read_is_read_anew(table: Storage) -> None:
    older, newer = manifest(2, 1), replace(manifest(3), version=2)
    assert commit_manifest(table, older)
    with pytest.raises(RegionMismatchError, match="next generation"):
        check_generations(table, [older], {REGION: 2})
    assert commit_manifest(table, newer)
    assert check_generations(table, [older], {REGION: 2}) == frozenset()
