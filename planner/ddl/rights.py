"""Whether a principal may make what does not exist yet."""

from __future__ import annotations

from memwal.errors import PermissionDeniedError, PreconditionError
from planner.access import Access
from planner.query_planner import QueryPlanner


def check_may_create(engine: QueryPlanner, name: str, access: Access) -> None:
    """The one check of all that make a table or a view, whether or not there is one.

    Raises:
        PermissionDeniedError: the principal may not; nothing is told of what exists.
        PreconditionError: the gateway only reads.
        InvalidInputError: nothing can have that name.
    """
    engine.catalog.check_name(name)
    rights = access.of(name)
    if rights is None or not access.may_write(name) or not rights.is_unrestricted:
        msg = f"user {access.user!r} may not make a table or view {name!r}: an administrator must grant it"
        raise PermissionDeniedError(msg)
    check_writable(engine, name)


def check_writable(engine: QueryPlanner, name: str) -> None:
    """Refuse changes where the gateway only reads.

    Raises:
        PreconditionError: it does.
    """
    if engine.catalog.writing is None:
        msg = f"{name!r} can't be made, changed or dropped: this gateway was started read-only"
        raise PreconditionError(msg)
