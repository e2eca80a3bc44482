"""What must be the same on executors as on the driver."""

from __future__ import annotations

import platform
from dataclasses import dataclass, fields
from functools import cache
from importlib import metadata

from memwal.errors import PreconditionError

_NAMES = {"lance_gateway": "lance-gateway", "pylance": "pylance", "pyarrow": "pyarrow", "python": "Python"}


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions in one process; sent with every task.

    Attributes:
        lance_gateway: of this package.
        pylance: of Lance, which writes files that an older one may not read.
        pyarrow: major and minor, of Arrow.
        python: major and minor, of Python, between which functions can't travel.
    """

    lance_gateway: str
    pylance: str
    pyarrow: str
    python: str

    def check(self, here: Versions | None = None) -> None:
        """Compare the driver's versions with those of this process.

        Args:
            here: those of this process; looked up by default.

        Raises:
            PreconditionError: names both, for what differs.
        """
        here = here or versions()
        for one in fields(self):
            wanted, found = getattr(self, one.name), getattr(here, one.name)
            if wanted != found:
                name = _NAMES[one.name]
                msg = (
                    f"a Spark executor on {platform.node()} has {name} {found}, but the driver has {wanted}: "
                    "install the same versions on both, or ship the driver's environment with --archives"
                )
                raise PreconditionError(msg)


@cache
def versions() -> Versions:
    """Those of this process."""
    return Versions(
        metadata.version("lance-gateway"),
        metadata.version("pylance"),
        ".".join(metadata.version("pyarrow").split(".")[:2]),
        ".".join(platform.python_version_tuple()[:2]),
    )
