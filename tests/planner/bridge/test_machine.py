"""How much memory and how many cores there are for a process, and how many files may be open."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from lance_gateway.planner.bridge.machine import count_cores, read_memory_bytes

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
GIB = 1 << 30
V1_NONE = "9223372036854771712\n"

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes the directory of a process, and trees of control groups: `{}` stands for where they are."""

    def write(groups: str, mounts: str, files: Mapping[str, str]) -> Path:
        (tmp_path / "cgroup").write_text(groups)
        (tmp_path / "mountinfo").write_text(
            "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n" + mounts.replace("{}", f"{tmp_path}")
        )
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


UNIFIED = "31 22 0:27 / {}/fs rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
SPLIT = (
    "32 22 0:28 / {}/fs/memory rw,nosuid shared:5 master:2 - cgroup cgroup rw,memory\n"
    "33 22 0:29 / {}/fs/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
    "34 22 0:30 / {}/fs/unified rw - cgroup2 cgroup2 rw\n"
)
SPLIT_GROUPS = (
    "12:memory:/docker/one\n3:cpu,cpuacct:/docker/one\n1:name=systemd:/docker/one\n0::/docker/one\n"
)
SERVICE = "0::/system.slice/gateway.service\n"


@pytest.mark.parametrize(
    ("groups", "mounts", "files", "expected"),
    [
        pytest.param("", "", {}, MACHINE, id="no control groups"),
        pytest.param("0::/\n", UNIFIED, {"fs/memory.max": f"{GIB}\n"}, GIB, id="root of a container"),
        pytest.param("0::/\n", UNIFIED, {"fs/memory.max": "max\n"}, MACHINE, id="no limit"),
        pytest.param("0::/\n", UNIFIED, {"fs/memory.max": "0\n"}, MACHINE, id="no memory at all"),
        pytest.param("0::/\n", UNIFIED, {"fs/memory.max": "rubbish\n"}, MACHINE, id="no number"),
        pytest.param(
            SERVICE,
            UNIFIED,
            {"fs/system.slice/gateway.service/memory.max": f"{GIB}\n", "fs/system.slice/memory.max": "max\n"},
            GIB,
            id="systemd service",
        ),
        pytest.param(
            SERVICE,
            UNIFIED,
            {
                "fs/system.slice/gateway.service/memory.max": f"{2 * GIB}\n",
                "fs/system.slice/memory.max": f"{GIB}\n",
            },
            GIB,
            id="the slice has less than its service",
        ),
        pytest.param(
            SERVICE,
            UNIFIED,
            {
                "fs/system.slice/gateway.service/memory.max": f"{2 * GIB}\n",
                "fs/system.slice/gateway.service/memory.high": f"{GIB}\n",
            },
            GIB,
            id="throttled before the limit",
        ),
        pytest.param(
            "0::/../../other\n", UNIFIED, {"fs/memory.max": f"{GIB}\n"}, GIB, id="outside of the namespace"
        ),
        pytest.param(
            "0::/kubepods/pod1/c1\n",
            "31 22 0:27 /kubepods/pod1 {}/fs rw - cgroup2 cgroup2 rw\n",
            {"fs/c1/memory.max": f"{2 * GIB}\n", "fs/memory.max": f"{GIB}\n"},
            GIB,
            id="a part of the tree is mounted",
        ),
        pytest.param(
            "0::/kubepods/pod1\n",
            "31 22 0:27 /kubepods/pod1/c1 {}/fs rw - cgroup2 cgroup2 rw\n",
            {"fs/memory.max": f"{GIB}\n"},
            GIB,
            id="a deeper part of the tree is mounted",
        ),
        pytest.param(
            SPLIT_GROUPS,
            SPLIT,
            {"fs/memory/docker/one/memory.limit_in_bytes": f"{GIB}\n"},
            GIB,
            id="version 1",
        ),
        pytest.param(
            SPLIT_GROUPS,
            SPLIT,
            {
                "fs/memory/docker/one/memory.limit_in_bytes": V1_NONE,
                "fs/memory/docker/memory.limit_in_bytes": f"{GIB}\n",
                "fs/memory/memory.limit_in_bytes": V1_NONE,
            },
            GIB,
            id="version 1, a group around it",
        ),
        pytest.param(
            SPLIT_GROUPS,
            SPLIT,
            {
                "fs/memory/docker/one/memory.limit_in_bytes": f"{2 * GIB}\n",
                "fs/unified/docker/one/memory.max": f"{GIB}\n",
            },
            GIB,
            id="both versions",
        ),
        pytest.param(
            "0::/a b\n",
            "31 22 0:27 / {}/f\\040s rw - cgroup2 cgroup2 rw\n",
            {"f s/a b/memory.max": f"{GIB}\n"},
            GIB,
            id="blanks",
        ),
        pytest.param("rubbish\n0::\n:::\n", "rubbish - x\n- -\n", {}, MACHINE, id="rubbish"),
    ],
)
def test_memory_is_what_the_strictest_limit_leaves(
    make: Make, groups: str, mounts: str, files: Mapping[str, str], expected: int
) -> None:
    assert read_memory_bytes(make(groups, mounts, files)) == min(expected, MACHINE)


@pytest.mark.parametrize(
    ("groups", "mounts", "files", "expected"),
    [
        pytest.param("", "", {}, 8, id="no control groups"),
        pytest.param("0::/\n", UNIFIED, {"fs/cpu.max": "max 100000\n"}, 8, id="no quota"),
        pytest.param("0::/\n", UNIFIED, {"fs/cpu.max": "200000 100000\n"}, 2, id="two cores"),
        pytest.param("0::/\n", UNIFIED, {"fs/cpu.max": "150000 100000\n"}, 2, id="one and a half"),
        pytest.param("0::/\n", UNIFIED, {"fs/cpu.max": "1000 100000\n"}, 1, id="hardly any"),
        pytest.param("0::/\n", UNIFIED, {"fs/cpu.max": "9900000 100000\n"}, 8, id="more than there are"),
        pytest.param(
            SERVICE,
            UNIFIED,
            {
                "fs/system.slice/gateway.service/cpu.max": "400000 100000\n",
                "fs/system.slice/cpu.max": "300000 100000\n",
            },
            3,
            id="the slice has less",
        ),
        pytest.param(
            SPLIT_GROUPS,
            SPLIT,
            {
                "fs/cpu/docker/one/cpu.cfs_quota_us": "50000\n",
                "fs/cpu/docker/one/cpu.cfs_period_us": "25000\n",
            },
            2,
            id="version 1",
        ),
        pytest.param(
            SPLIT_GROUPS,
            SPLIT,
            {"fs/cpu/docker/one/cpu.cfs_quota_us": "-1\n", "fs/cpu/docker/one/cpu.cfs_period_us": "100000\n"},
            8,
            id="version 1, no quota",
        ),
        pytest.param("0::/\n", UNIFIED, {"fs/cpu.max": "100000 0\n"}, 8, id="no period"),
    ],
)
def test_cores_are_what_the_strictest_quota_leaves(
    make: Make, groups: str, mounts: str, files: Mapping[str, str], expected: int
) -> None:
    assert count_cores(make(groups, mounts, files), count_usable=lambda: 8) == expected


@pytest.mark.slow
def test_only_the_cores_that_a_process_may_run_on_count() -> None:
    """In a process of its own, which may run on one."""
    program = (
        "import os; from lance_gateway.planner.bridge.machine import count_cores; "
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); print(count_cores())"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told == "1\n"


@pytest.mark.slow
def test_a_limit_of_the_address_space_is_one_of_the_memory() -> None:
    """In a process of its own, whose limit is as `LimitAS` of systemd sets it."""
    program = (
        "import resource; from lance_gateway.planner.bridge.machine import read_memory_bytes; "
        f"resource.setrlimit(resource.RLIMIT_AS, ({GIB}, {GIB})); print(read_memory_bytes())"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert int(told) == min(GIB, read_memory_bytes())


@pytest.mark.slow
def test_as_many_files_may_be_open_as_the_user_may_have() -> None:
    """In a process of its own, which was given a low limit."""
    program = (
        "import resource; from lance_gateway.gateway.start.run_server import allow_open_files; "
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard)); allow_open_files(); "
        "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert told.split() == [str(hard)] * 2
