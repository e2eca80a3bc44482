"""What the machine, or the container around this process, has."""

import os
import resource
from pathlib import Path

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def memory_bytes(cgroup_limit: Path = _CGROUP_LIMIT) -> int:
    """Returns the memory that this process may use at most: the machine's, or less where a cgroup says so.

    Args:
        cgroup_limit: file in which Linux tells the limit of the control group, "max" for none.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(machine, int(cgroup_limit.read_text()))
    except (OSError, ValueError):
        return machine


def allow_open_files() -> None:
    """Lets this process have as many files and connections open as its user may have.

    The usual soft limit of 1,024 is one for programs that wait with `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
