"""The mark by which a root says which format its own files have, so that older versions leave it alone.

It is about what gateways and jobs agree on beside Lance's format and the MemWAL specification: records of
owners, agreements of mergers, locks. The number is raised when a version could do harm that does not know
what is new, and not for what it merely does not see.
"""

from __future__ import annotations

import json
import logging
from typing import Final

from lance_gateway.memwal.errors import CorruptDataError, PreconditionError, UnavailableError
from lance_gateway.memwal.storage.files import Storage

FORMAT: Final = 1
"""The newest format that this version knows."""
MARK: Final = "_gateway/format"

logger = logging.getLogger(__name__)


def check_format(root: Storage, version: str) -> None:
    """Refuse a root whose format is newer than this version knows; one without a mark has any format.

    Args:
        root: directory of all tables.
        version: of this program, for the message.

    Raises:
        PreconditionError: the format is newer; names both versions.
        CorruptDataError: the mark can't be read.
        UnavailableError: storage failed to answer.
    """
    try:
        data = root.read(MARK)
    except FileNotFoundError:
        return
    try:
        mark = json.loads(data)
        form, made_by = int(mark["format"]), str(mark["made_by"])
    except (ValueError, TypeError, KeyError) as error:
        msg = (
            f'{root.locate(MARK)} ({len(data)} bytes) is not a mark of a format: write {{"format": {FORMAT}, '
            '"made_by": ".."} there, or remove it, if no newer version has used the root'
        )
        raise CorruptDataError(msg) from error
    if form > FORMAT:
        msg = (
            f"root {root.uri} has format {form} since lance-gateway {made_by} used it, and lance-gateway "
            f"{version} knows formats up to {FORMAT}: upgrade this one"
        )
        raise PreconditionError(msg)


def mark_format(root: Storage, version: str) -> None:
    """Write the mark where there is none; a root that can't be written stays without."""
    try:
        root.put_if_absent(MARK, json.dumps({"format": FORMAT, "made_by": version}).encode())
    except UnavailableError as error:
        logger.warning("the root is not marked with its format: %s", error)
