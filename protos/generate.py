"""Regenerates the message modules and their type stubs from the `.proto` files of this folder.

`python -m lance_gateway.protos.generate` writes them; with `--check` it writes nothing and exits with
status 1, naming every file whose checked-in text differs from what the compiler makes of its source. The
compilers are those of the `dev` extra (`grpcio-tools`, `mypy-protobuf`), so that every machine agrees.
"""

import argparse
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

PACKAGE = Path(__file__).absolute().parent
ROOT = PACKAGE.parents[1]


def compile_protos(destination: Path) -> tuple[Path, ...]:
    """Compile every `.proto` of the package below `destination`; return the relative paths of the files.

    Raises:
        SystemExit: a compiler is missing or rejected a source file; the message says which.
    """
    try:
        # A development tool, absent from installations; it ships no types.
        from grpc_tools import protoc  # type: ignore[import-untyped]  # noqa: PLC0415
    except ModuleNotFoundError:
        sys.exit("grpcio-tools is not installed: pip install 'lance-gateway[dev]'")
    # Looked for beside this interpreter first: the virtual environment need not be active.
    beside = sysconfig.get_path("scripts")
    plugin = shutil.which("protoc-gen-mypy", path=beside) or shutil.which("protoc-gen-mypy")
    if plugin is None:
        sys.exit("protoc-gen-mypy is not installed: pip install 'lance-gateway[dev]'")
    sources = sorted(str(path.relative_to(ROOT)) for path in PACKAGE.glob("*.proto"))
    builtin = Path(protoc.__file__).parent / "_proto"
    status = protoc.main(
        [
            "protoc",
            f"--proto_path={ROOT}",
            f"--proto_path={builtin}",
            f"--plugin=protoc-gen-mypy={plugin}",
            f"--python_out={destination}",
            f"--mypy_out=quiet:{destination}",
            *sources,
        ]
    )
    if status != 0:
        sys.exit(f"protoc exited with status {status}; its messages are above")
    return tuple(sorted(path.relative_to(destination) for path in destination.rglob("*_pb2.py*")))


def find_stale_files(destination: Path, generated: Sequence[Path]) -> tuple[Path, ...]:
    """Return checked-in files that differ from the generated ones or have no source."""
    differing = [
        path
        for path in generated
        if not (ROOT / path).is_file() or (ROOT / path).read_bytes() != (destination / path).read_bytes()
    ]
    orphans = {path.relative_to(ROOT) for path in PACKAGE.glob("*_pb2.py*")} - set(generated)
    return (*differing, *sorted(orphans))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 if `--check` found a difference."""
    parser = argparse.ArgumentParser(
        prog="python -m lance_gateway.protos.generate", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--check", action="store_true", help="compare with what is checked in; write nothing")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        destination = Path(scratch)
        generated = compile_protos(destination)
        stale = find_stale_files(destination, generated)
        if options.check:
            for path in stale:
                print(f"{path} is out of date: run `make protos` and commit the result", file=sys.stderr)  # noqa: T201
            return 1 if stale else 0
        for path in stale:
            if path in generated:
                shutil.copyfile(destination / path, ROOT / path)
            else:
                (ROOT / path).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
