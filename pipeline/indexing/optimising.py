"""Rows that indexes lack, into the indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from memwal.errors import PreconditionError
from pipeline.indexing.committing import committed
from pipeline.indexing.planning import Upkeep
from pipeline.jobs.lake import LakeTable
from pipeline.jobs.progress import Progress
from pipeline.jobs.runners import Runner


@dataclass(frozen=True, slots=True)
class OptimisePart:
    """Indexes of a table that one call of Lance brings up to date.

    Attributes:
        uri: of the table.
        options: of its storage.
        upkeep: what is done, the same for all of them but for their names.
    """

    uri: str
    options: Mapping[str, str]
    upkeep: tuple[Upkeep, ...]


@dataclass(frozen=True, slots=True)
class Optimised:
    """What became of an index.

    Attributes:
        upkeep: what was to be done.
        error: why it was not; None if it was.
    """

    upkeep: Upkeep
    error: str | None = None


def optimise(
    table: LakeTable, upkeep: Sequence[Upkeep], runner: Runner, progress: Progress
) -> tuple[Optimised, ...]:
    """Bring indexes up to date; one that can't be holds up no other.

    Rows are added to all indexes by one commit where no segments are folded. Each of the others has a
    commit of its own, and they are worked on at the same time.

    Raises:
        UnavailableError: others were first, time after time.
    """
    plain = tuple(one for one in upkeep if not one.fold and not one.retrain)
    groups = [plain] if plain else []
    groups += [(one,) for one in upkeep if one.fold or one.retrain]
    parts = [OptimisePart(table.uri, dict(table.options), one) for one in groups]
    done: list[Optimised] = []
    with progress(f"index {table.name}", len(upkeep)) as advance:
        for found in runner.run(run_part, parts, name=f"index {table.name}"):
            done += found
            advance(len(found))
    return tuple(sorted(done, key=lambda one: one.upkeep.name))


def run_part(part: OptimisePart) -> tuple[Optimised, ...]:
    """Do a part; safe to repeat.

    Raises:
        UnavailableError: others were first, time after time.
    """
    table = LakeTable.at(part.uri, part.options)
    names = [one.name for one in part.upkeep]
    which = part.upkeep[0]
    call = {"retrain": True} if which.retrain else {"num_indices_to_merge": which.fold}

    def change() -> None:
        table.dataset().optimize.optimize_indices(index_names=names, **call)

    try:
        committed(table, f"bring indexes {', '.join(map(repr, names))} up to date", change)
    except PreconditionError as error:
        if len(names) == 1:
            return (Optimised(which, str(error)),)
        # One of them stands in the way: each by itself.
        alone = (run_part(OptimisePart(part.uri, part.options, (one,))) for one in part.upkeep)
        return tuple(chain.from_iterable(alone))
    return tuple(map(Optimised, part.upkeep))
