"""How much of the machine this process may use: memory and processor cores.

Control groups (of containers, of systemd's MemoryMax and CPUQuota) limit a process by every group from its
own up to the root, in one tree for everything (version 2), in one for each resource (version 1), or in both
at a time: `/proc/self/cgroup` names the groups of the process, `/proc/self/mountinfo` where the trees are.
A container sees its own group as the root, and may be told the path that its group has outside.
"""

import math
import os
import re
import resource
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

_PROC = Path("/proc/self")
# What version 1 writes where there is no limit: 2**63 less a page.
_NO_LIMIT = 1 << 60
_ESCAPE = re.compile(r"\\([0-7]{3})")
_MEMORY_FILES = {2: ("memory.max", "memory.high"), 1: ("memory.limit_in_bytes",)}


def read_memory_bytes(proc: Path = _PROC) -> int:
    """Return the memory that this process may use: the machine's, or less by its limits.

    Args:
        proc: directory in which Linux describes the process.
    """
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    limits += [resource.getrlimit(one)[0] for one in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    for version, group in _iterate_groups(proc, "memory"):
        limits += [_read_number(group / name) for name in _MEMORY_FILES[version]]
    # Without a limit, getrlimit says -1.
    return min(limit for limit in limits if 0 < limit < _NO_LIMIT)


def count_cores(proc: Path = _PROC, *, count_usable: Callable[[], int] | None = None) -> int:
    """Return how many cores this process may keep busy: those it may run on, or fewer by its quota of time.

    A quota of one and a half cores counts as two.

    Args:
        proc: directory in which Linux describes the process.
        count_usable: returns the cores that the process may run on; by default the system's answer.
    """
    cores = [(count_usable or _count_usable_cores)()]
    for version, group in _iterate_groups(proc, "cpu"):
        quota, period = _read_quota(group, version)
        if quota > 0 and period > 0:
            cores.append(math.ceil(quota / period))
    return min(cores)


def _count_usable_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not Linux
        return os.cpu_count() or 1


def _read_quota(group: Path, version: int) -> tuple[int, int]:
    """Return the microseconds of processor time in each period, and those of the period; 0 for no limit."""
    if version == 1:
        return _read_number(group / "cpu.cfs_quota_us"), _read_number(group / "cpu.cfs_period_us")
    match re.fullmatch(r"(\d+) (\d+)\s*", _read_text(group / "cpu.max")):
        case None:
            return 0, 0
        case found:
            return int(found[1]), int(found[2])


def _iterate_groups(proc: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """Yield version and directory of each group that limits a resource, from the process's own upwards."""
    mounts = list(_iterate_mounts(_read_text(proc / "mountinfo")))
    for line in _read_text(proc / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        version = 2 if (number, controllers) == ("0", "") else 1
        if version == 1 and controller not in controllers.split(","):
            continue
        for kind, root, mount, options in mounts:
            if kind != ("cgroup2" if version == 2 else "cgroup") or (
                version == 1 and controller not in options
            ):
                continue
            for directory in _iterate_ancestors(mount, root, path):
                yield version, directory
            break


def _iterate_ancestors(mount: Path, root: str, path: str) -> Iterator[Path]:
    """Yield the directories of a group and of those around it, as far as they can be seen.

    Args:
        mount: where the tree is mounted.
        root: the group that is mounted there.
        path: of the process's group; of one outside `root`, only the limits of `root` are seen.
    """
    below = PurePosixPath()
    if ".." not in PurePosixPath(path).parts and PurePosixPath(path).is_relative_to(root):
        below = PurePosixPath(path).relative_to(root)
    for group in (below, *below.parents):
        yield mount / group


def _iterate_mounts(text: str) -> Iterator[tuple[str, str, Path, frozenset[str]]]:
    """Yield the type of each file system, what of it is mounted, where, and its options."""
    for line in text.splitlines():
        mounted, _, rest = line.partition(" - ")
        fields, kinds = mounted.split(" "), rest.split(" ")
        if len(fields) >= 5 and len(kinds) >= 3:
            yield kinds[0], _unescape(fields[3]), Path(_unescape(fields[4])), frozenset(kinds[2].split(","))


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def _read_number(path: Path) -> int:
    """Return the number in a file; 0 where there is none: no file, or "max"."""
    try:
        return int(_read_text(path))
    except ValueError:
        return 0


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
