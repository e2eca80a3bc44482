"""What is said of one text query, read with the checks that each name needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NoReturn

from execnodes.text.query import Operator
from memwal.errors import InvalidInputError

_FUZZINESS: dict[object, int | None] = {"0": 0, "1": 1, "2": 2, "auto": None}


@dataclass(frozen=True, slots=True)
class QueryFields:
    """Values by name, of a JSON object or of a call's options; NULL says nothing.

    Args:
        place: where they are said, for messages.
        values: by name.
    """

    place: str
    values: Mapping[str, object]

    @staticmethod
    def of(value: object, place: str) -> QueryFields:
        """Those of a JSON object.

        Raises:
            InvalidInputError: it is something else.
        """
        if not isinstance(value, dict):
            raise InvalidInputError(f"{place}: a JSON object is needed here, not {value!r}")
        return QueryFields(place, value)

    def refuse(self, reason: str) -> NoReturn:
        """Tell what is wrong, and where."""
        raise InvalidInputError(f"{self.place}: {reason}")

    def only(self, known: Collection[str]) -> QueryFields:
        """The same, unless there are other names."""
        for name in self.values:
            if name not in known:
                close = get_close_matches(name, known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
                self.refuse(f"{name!r} is unknown here; {hint}")
        return self

    def without(self, names: Collection[str], reason: str) -> None:
        """Refuse these names, for a reason."""
        for name in names:
            if self.values.get(name) is not None:
                self.refuse(f"{name} {reason}")

    def boolean(self, name: str, *, default: bool) -> bool:
        """True or false."""
        value = self._value(name, default)
        if not isinstance(value, bool):
            self.refuse(f"{name} must be true or false, not {value!r}")
        return value

    def integer(self, name: str, *, default: int) -> int:
        """A whole number."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(f"{name} must be a whole number, not {value!r}")
        return value

    def number(self, name: str, *, default: float) -> float:
        """A number."""
        return self._number(name, self._value(name, default))

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of numbers; none where there is no list."""
        return tuple(self._number(name, value) for value in self.items(name))

    def operator(self) -> Operator:
        """Whether all words are needed."""
        value = self._value("operator", "or")
        try:
            return Operator(str(value).upper())
        except ValueError:
            self.refuse(f"operator must be 'and' or 'or', not {value!r}")

    def fuzziness(self) -> int | None:
        """Edits allowed; None for 'auto'."""
        value = self._value("fuzziness", 0)
        key = str(value).lower()
        if isinstance(value, bool) or key not in _FUZZINESS:
            self.refuse(f"fuzziness must be 0, 1, 2 or 'auto', not {value!r}")
        return _FUZZINESS[key]

    def text(self, name: str) -> str:
        """Words to look for."""
        value = self.values.get(name)
        if not isinstance(value, str):
            self.refuse(f"{name} must be a text: the words to look for")
        return self.not_blank(value)

    def not_blank(self, text: str) -> str:
        """The text, if there is something in it."""
        if not text.strip():
            self.refuse("there are no words to look for")
        return text

    def optional_text(self, name: str) -> str | None:
        """A text, or None where there is none."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            self.refuse(f"{name} must be a text, not {value!r}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; none where there is no list."""
        values = self.items(name)
        texts = tuple(value for value in values if isinstance(value, str))
        if len(texts) < len(values):
            self.refuse(f"{name} must be a list of texts")
        return texts

    def objects(self, name: str) -> tuple[QueryFields, ...]:
        """A list of JSON objects."""
        return tuple(
            QueryFields.of(value, f"{self.place}.{name}[{index}]")
            for index, value in enumerate(self.items(name))
        )

    def items(self, name: str) -> tuple[object, ...]:
        """A list of anything; nothing where there is no list."""
        value = self._value(name, [])
        if not isinstance(value, list):
            self.refuse(f"{name} must be a list, not {value!r}")
        return tuple(value)

    def _value(self, name: str, default: object) -> object:
        value = self.values.get(name)
        return default if value is None else value

    def _number(self, name: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(f"{name} must be a number, not {value!r}")
        return float(value)
