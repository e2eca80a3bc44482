"""Images that are built and run without a container engine: by buildah, on a base of Debian's packages."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

_FOLDER = Path(__file__).parents[2]
_BASE = "localhost/python-base"
_SUITE = "bookworm"
_PACKAGES = ("ca-certificates", "python3", "python3-venv")
_CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
_ISOLATION = ("--isolation", "chroot")
"""Needs no namespaces: it works inside of containers, too. Containers have the network of the machine."""
_PATIENCE_SECONDS = 120


def require_buildah() -> None:
    """Skip the test where images can't be built; fail it in CI."""
    missing = [name for name in ("buildah", "debootstrap") if shutil.which(name) is None]
    if not missing and os.geteuid() == 0:
        return
    reason = f"images can't be built: that needs root, buildah and debootstrap (missing: {missing})"
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true, and {reason}", pytrace=False)
    pytest.skip(reason)


@dataclass(frozen=True)
class Images:
    """Images and containers below a folder.

    Attributes:
        folder: exists.
    """

    folder: Path

    def command(self, *words: str) -> list[str]:
        """Return a command of buildah for these images."""
        places = ("--root", str(self.folder / "images"), "--runroot", str(self.folder / "run"))
        # The driver that works on any file system, another container's included.
        return ["buildah", *places, "--storage-driver", "vfs", *words]

    def call(self, *words: str) -> str:
        """Run a command of buildah; its first line is returned.

        Raises:
            AssertionError: it failed; the text has the end of what it wrote.
        """
        run = subprocess.run(self.command(*words), cwd=_FOLDER, capture_output=True, text=True, check=False)
        assert run.returncode == 0, f"{words}:\n{run.stdout[-3000:]}\n{run.stderr[-3000:]}"
        return run.stdout.partition("\n")[0]

    def make_base(self) -> None:
        """Make an image that is laid out as Python's official one: `python` and `pip` in /usr/local/bin."""
        system = self.folder / "system"
        include = f"--include={','.join(_PACKAGES)}"
        subprocess.run(
            ["debootstrap", "--variant=minbase", include, _SUITE, system], check=True, capture_output=True
        )
        subprocess.run(["chroot", system, "python3", "-m", "venv", "/usr/local"], check=True)
        environment = ["PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"]
        if Path("/", _CERTIFICATES).is_file():
            # It trusts whom this machine trusts.
            shutil.copyfile(Path("/", _CERTIFICATES), system / _CERTIFICATES)
            environment.append(f"PIP_CERT=/{_CERTIFICATES}")
        container = self.call("from", "scratch")
        self.call("add", "--quiet", container, str(system), "/")
        self.call("config", *(word for one in environment for word in ("--env", one)), container)
        self.call("commit", "--quiet", "--rm", container, _BASE)
        shutil.rmtree(system)

    def build(self, dockerfile: str, name: str) -> str:
        """Build the image of a file in `docker`, and return its name."""
        options = ("--build-arg", f"BASE={_BASE}", "--pull-never", "--quiet")
        self.call("build", *_ISOLATION, *options, "-f", f"docker/{dockerfile}", "-t", name, ".")
        return name

    @contextmanager
    def container(self, image: str, root: Path, variables: Mapping[str, str]) -> Iterator["Container"]:
        """Make a container, with a directory as its /data, which it may write."""
        name = self.call("from", "--pull-never", image)
        try:
            self.call("config", *(f"--env={key}={value}" for key, value in variables.items()), name)
            yield Container(self, name, root)
        finally:
            self.call("rm", name)

    def remove(self) -> None:
        """Remove everything."""
        self.call("rm", "--all")
        self.call("rmi", "--all", "--force")


@dataclass(frozen=True)
class Container:
    """A container.

    Attributes:
        images: where it is.
        name: of it.
        root: its /data.
    """

    images: Images
    name: str
    root: Path

    def command(self, *words: str) -> list[str]:
        """Return the command that runs these words in the container, or what its image says it runs."""
        if not words:
            form = "{{range .OCIv1.Config.Entrypoint}}{{.}} {{end}}{{range .OCIv1.Config.Cmd}}{{.}} {{end}}"
            words = tuple(self.images.call("inspect", "--format", form, self.name).split())
        volume = f"--volume={self.root}:/data"
        return self.images.command("run", *_ISOLATION, volume, self.name, "--", *words)

    def run(self, *words: str) -> str:
        """Run these words in the container, and return what they write."""
        run = subprocess.run(
            self.command(*words),
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS * 5,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    @contextmanager
    def started(self, **options: Any) -> Iterator["subprocess.Popen[str]"]:
        """Run what the container runs by itself; whatever is left of it afterwards is killed."""
        with subprocess.Popen(self.command(), text=True, **options) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    for one in (*psutil.Process(process.pid).children(recursive=True), process):
                        one.kill()


def stop(process: "subprocess.Popen[str]") -> None:
    """Send SIGTERM to the first process of a container, as `docker stop` would, and wait for a good end."""
    started = psutil.Process(process.pid).children(recursive=True)
    inside = next(one for one in started if one.uids().real != 0 and "buildah" not in one.cmdline()[0])
    inside.terminate()
    assert process.wait(_PATIENCE_SECONDS) == 0
