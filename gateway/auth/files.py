"""Files that say who may do what: read strictly, and read again when they change."""

import logging
import threading
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError

logger = logging.getLogger(__name__)

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class Strict(BaseModel):
    """A table of a TOML file; unknown keys and values of wrong types are refused."""

    # Error texts never show a value: it may be a secret.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def read_toml(text: str, where: str, kind: type[M]) -> M:
    """Parse a TOML text into a model.

    Raises:
        InvalidInputError: the text is not valid TOML or says something else; the message names the keys.
    """
    try:
        return kind.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"{where} is not valid TOML: {error}") from None
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, problem['loc'])) or 'the file'}: "
            f"{_format_reason(problem['type'], problem['msg'])}"
            for problem in error.errors(include_url=False, include_input=False)
        ]
        raise InvalidInputError(f"{where}: {'; '.join(problems)}") from None


def _format_reason(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "there is no such key; check its spelling"
    if kind == "missing":
        return "it is missing"
    return message.removeprefix("Value error, ")


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        InvalidInputError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInputError(f"{str(path)!r} cannot be read: {reason}") from None


class WatchedFile(Generic[T]):
    """The parsed content of a file that may change.

    A call checks the file at most once in `interval` seconds. If a new version cannot be parsed, that is
    logged, and the old content stays in force.

    Args:
        path: of the file.
        parse: text and path -> content; raises a `LanceGatewayError` if the text is invalid.
        interval: seconds between two checks.
        clock: seconds, never going back.

    Raises:
        LanceGatewayError: the first version cannot be read or parsed.
    """

    def __init__(
        self,
        path: Path,
        parse: Callable[[str, str], T],
        *,
        interval: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._parse = parse
        self._interval = interval
        self._clock = clock
        self._lock = threading.Lock()
        # The state is taken before the text: a change in between is seen at the next look.
        self._state = _read_state(path)
        self._value = parse(read_text(path), str(path))
        self._looked = clock()

    def __call__(self) -> T:
        """Return what the file says."""
        if self._clock() - self._looked >= self._interval:
            with self._lock:
                self._reload()
        return self._value

    def _reload(self) -> None:
        if self._clock() - self._looked < self._interval:
            return
        self._looked = self._clock()
        state = _read_state(self._path)
        if state == self._state:
            return
        self._state = state
        try:
            self._value = self._parse(read_text(self._path), str(self._path))
        except LanceGatewayError as error:
            logger.error("%s; what was read before stays in force", error)  # noqa: TRY400 - the text says it all
        else:
            logger.info("%s was read again", self._path)


def _read_state(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
