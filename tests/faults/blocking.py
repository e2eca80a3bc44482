"""Ways to make Lance's own writes fail, root or not."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def in_the_way(directory: Path) -> Iterator[None]:
    """A file stands where the directory was, so that nothing in it can be read, listed or written."""
    aside = directory.with_name(f"{directory.name}.aside")
    existed = directory.exists()
    if existed:
        directory.rename(aside)
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.write_bytes(b"")
    try:
        yield
    finally:
        directory.unlink()
        if existed:
            aside.rename(directory)


@contextmanager
def immutable(directory: Path) -> Iterator[None]:
    """Nothing can be created in the directory or removed from it; what is there can be read."""
    if subprocess.run(["chattr", "+i", directory], capture_output=True, check=False).returncode:
        pytest.skip("the file system has no immutable directories, or they are not permitted")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", directory], check=True)


@contextmanager
def small_disk(directory: Path, megabytes: int) -> Iterator[None]:
    """A file system of that size is mounted at the directory."""
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"size={megabytes}m".encode()
    if libc.mount(b"none", bytes(directory), b"tmpfs", 0, options):
        pytest.skip(f"file systems can't be mounted here: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        assert libc.umount2(bytes(directory), 2) == 0, os.strerror(ctypes.get_errno())  # 2: lazily


def fill(directory: Path) -> Path:
    """A file that leaves no byte free."""
    path = directory / "filling"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return path
