"""What a job runs: the command line, and the environment that tells it which tables there are."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Self

from lance_gateway.gateway.config.loader import FILE_VARIABLE, Loaded
from lance_gateway.gateway.config.schema import ENV_DELIMITER, ENV_PREFIX
from lance_gateway.memwal.storage.jobs import USER_VARIABLE
from lance_gateway.memwal.storage.table_names import TableName

_MODULE: Final = "lance_gateway.gateway.cli.supervised"


class JobKind(Enum):
    """Kinds of jobs, named as the commands of the pipeline.

    MERGE: writes all flushed generations into the base table.
    SNAPSHOT: remembers the regions in the base table.
    CLEAN: finds what nobody needs any more, or removes what was found.
    """

    MERGE = "merge"
    SNAPSHOT = "snapshot"
    CLEAN = "clean"


_OPTIONS: Final[Mapping[JobKind, Sequence[str]]] = {
    # Whoever asks for a merge wants one, however little is pending.
    JobKind.MERGE: ("--force",),
    JobKind.SNAPSHOT: (),
    JobKind.CLEAN: (),
}


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How jobs of users run.

    Attributes:
        max_running: jobs at a time; 0 offers none.
        timeout_seconds: longer jobs are stopped.
        variables: of their environment, beside those of the gateway. Options of the object store may be
            secrets, which other users of the machine could read on a command line.
    """

    max_running: int
    timeout_seconds: float
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, loaded: Loaded) -> Self:
        """Return the settings of a configuration: jobs have the tables of the gateway, and its file."""
        config = loaded.config
        options = f"{ENV_PREFIX}STORAGE_OPTIONS{ENV_DELIMITER}"
        variables = {f"{options}{name.upper()}": value for name, value in config.storage_options.items()}
        variables[f"{ENV_PREFIX}ROOT"] = config.root
        if loaded.file is not None:
            variables[FILE_VARIABLE] = str(loaded.file)
        # A gateway that only reads changes no tables by its jobs either.
        max_running = config.jobs.max_running if config.writes.enabled else 0
        return cls(max_running, config.jobs.timeout, variables)


def build_arguments(kind: JobKind, table: TableName, report: int | None = None) -> list[str]:
    """Return the command line of a job.

    Args:
        kind: what it does.
        table: of which table.
        report: number of the open file with the report of an earlier look for garbage, which is removed now;
            None looks only.
    """
    removes = () if report is None else ("--delete", "--report", f"/dev/fd/{report}")
    options = (*_OPTIONS[kind], *removes, "--json")
    return [sys.executable, "-m", _MODULE, "pipeline", kind.value, *options, "--", table]


def build_environment(settings: JobSettings, user: str) -> dict[str, str]:
    """Return the environment of a job that a user has started."""
    return {**os.environ, **settings.variables, USER_VARIABLE: user}
