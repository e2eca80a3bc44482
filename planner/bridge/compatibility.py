"""Checks that the versions of pylance and datafusion match."""

from __future__ import annotations

from importlib.metadata import version

from memwal.errors import PreconditionError

DATAFUSION_OF_PYLANCE = {"14": "55"}
"""pylance major version -> the one DataFusion major version that its table provider is built for."""


def check(pylance: str | None = None, datafusion: str | None = None) -> None:
    """Refuse a pair of pylance and datafusion that can't work together.

    Args:
        pylance: by default the installed version.
        datafusion: by default the installed version.

    Raises:
        PreconditionError: names both versions and the pair to install.
    """
    pylance = pylance or version("pylance")
    datafusion = datafusion or version("datafusion")
    required = DATAFUSION_OF_PYLANCE.get(pylance.partition(".")[0])
    if required is None:
        supported = ", ".join(DATAFUSION_OF_PYLANCE)
        msg = (
            f"pylance {pylance} is not supported, major versions {supported} are: "
            "pip install 'pylance==14.0.*'"
        )
        raise PreconditionError(msg)
    if datafusion.partition(".")[0] != required:
        msg = (
            f"pylance {pylance} works with datafusion {required}, but datafusion {datafusion} is installed: "
            f"pip install 'datafusion=={required}.*'"
        )
        raise PreconditionError(msg)
