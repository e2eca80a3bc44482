"""Packs a Python and the packages that executors need into an archive, which Spark unpacks beside each."""

from __future__ import annotations

import importlib.util
import os
import re
import stat
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from io import BytesIO
from pathlib import Path, PurePosixPath

from lance_gateway.memwal.errors import InvalidInputError, UnavailableError

FOLDER = "environment"
"""Where Spark unpacks the archive, in the working directory of an executor."""
PYTHON = f"./{FOLDER}/bin/python"
"""The archive's Python, from the same directory."""
_PACKAGE = "lance-gateway"
_OF_SPARK = frozenset({"pyspark", "py4j"})
"""Executors have these from Spark itself."""
_ENDINGS = (".tar.gz", ".tgz")
"""Spark unpacks other archives without the right to execute what is in them."""
_LEVEL = 1
"""Of gzip: compiled libraries hardly shrink more at higher ones."""
_LEFT_OUT = frozenset({"__pycache__", "site-packages", "dist-packages", "test", "idlelib", "ensurepip"})
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """An archive that was written.

    Attributes:
        path: of the file.
        packages: names of the distributions in it, sorted.
        num_bytes: size of the file.
    """

    path: Path
    packages: tuple[str, ...]
    num_bytes: int


def pack(path: Path) -> ArchiveReport:
    """Write this process's Python, lance-gateway and what it depends on into an archive.

    The archive runs wherever this Python would run: on the same kind of processor, under a system with the
    same or newer system libraries. It needs no Python there.

    Args:
        path: file to write, which is replaced; .tar.gz or .tgz.

    Raises:
        InvalidInputError: the name ends otherwise.
        UnavailableError: the file can't be written.
    """
    if not path.name.endswith(_ENDINGS):
        raise InvalidInputError(f"{str(path)!r} is not a name for an archive: end it with .tar.gz")
    packages = find_distributions()
    part = path.with_name(f".{path.name}.part")
    try:
        with tarfile.open(part, "w:gz", compresslevel=_LEVEL) as archive:
            for name, file in (*_list_python(), *_list_packages(packages)):
                archive.add(file.resolve(), name, recursive=False)
            _add_script(archive, "bin/python", _START)
        part.replace(path)
    except OSError as error:
        raise UnavailableError(f"the archive {str(path)!r} can't be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return ArchiveReport(path, tuple(packages), path.stat().st_size)


def find_distributions() -> dict[str, metadata.Distribution]:
    """Return lance-gateway and the installed distributions that it and its extra `spark` need, by name."""
    found: dict[str, metadata.Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    left = [(_PACKAGE, frozenset({"spark"}))]
    while left:
        name, extras = left.pop()
        if name in _OF_SPARK or (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # Needed elsewhere: on another system, by another Python.
            continue
        left += [one for text in found[name].requires or () if (one := _parse(text, extras)) is not None]
    return dict(sorted(found.items()))


def _parse(requirement: str, extras: frozenset[str]) -> tuple[str, frozenset[str]] | None:
    """Name and extras of a requirement; None where it belongs to an extra that nobody asked for."""
    what, _, marker = requirement.partition(";")
    wanted = _EXTRA.findall(marker)
    found = _NAME.match(what)
    if found is None or (wanted and not extras.intersection(wanted)):
        return None
    name = re.sub(r"[-_.]+", "-", found[1]).lower()
    return name, frozenset(one.strip() for one in (found[2] or "").split(",") if one.strip())


def _list_packages(packages: dict[str, metadata.Distribution]) -> Iterator[tuple[str, Path]]:
    for one in packages.values():
        for file in one.files or ():
            if not _is_left_out(file) and ".." not in file.parts and not file.is_absolute():
                place = Path(str(one.locate_file(file)))
                if place.is_file():
                    yield f"packages/{file.as_posix()}", place
    # An editable installation records none of these.
    recorded = {str(file) for file in packages[_PACKAGE].files or ()}
    for name in (packages[_PACKAGE].read_text("top_level.txt") or "").split():
        if f"{name}/__init__.py" not in recorded:
            yield from _list_folder(_folder_of(name), f"packages/{name}")


def _folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise UnavailableError(f"package {package!r} of {_PACKAGE} is not found: install {_PACKAGE} again")
    return Path(spec.origin).parent


def _list_python() -> Iterator[tuple[str, Path]]:
    """The interpreter, its shared library where it has one, and the standard library."""
    yield f"bin/{_BINARY}", Path(sys.executable)
    library = Path(str(sysconfig.get_config_var("LIBDIR")), str(sysconfig.get_config_var("INSTSONAME")))
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and library.is_file():
        yield f"lib/{library.name}", library
    yield from _list_folder(Path(sysconfig.get_path("stdlib")), f"lib/{_BINARY}")


def _list_folder(folder: Path, into: str) -> Iterator[tuple[str, Path]]:
    # Packages of a clone are links.
    for parent, _, names in os.walk(folder, followlinks=True):
        for path in sorted(Path(parent, name) for name in names):
            inside = path.relative_to(folder)
            if path.is_file() and not _is_left_out(inside) and path.suffix != ".a":
                yield f"{into}/{inside.as_posix()}", path


def _is_left_out(path: PurePosixPath | Path) -> bool:
    at_top = path.parts[0] if path.parts else ""
    return "__pycache__" in path.parts or at_top in _LEFT_OUT


def _add_script(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(text.encode())
    entry.mode = stat.S_IFREG | 0o755
    archive.addfile(entry, BytesIO(text.encode()))


_BINARY = f"python{sys.version_info.major}.{sys.version_info.minor}"
_START = f"""#!/bin/sh
# Starts the Python of this archive, wherever it was unpacked.
here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
export PYTHONHOME="$here"
export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$here/packages"
export LD_LIBRARY_PATH="$here/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
exec "$here/bin/{_BINARY}" "$@"
"""
