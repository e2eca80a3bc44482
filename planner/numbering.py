"""Parameters of a statement: `?`, or `$1`, `$2` and so on, and which value each of them gets."""

from __future__ import annotations

from memwal.errors import InvalidInputError
from planner.tokens import SqlText

__all__ = ["number_parameters"]


def number_parameters(text: SqlText) -> tuple[dict[int, int], int]:
    """Finds the parameters and gives each its ordinal, counted from 0.

    Returns:
        The token at which each parameter begins with its ordinal, and how many values there are.

    Raises:
        InvalidInputError: parameters of both kinds, or numbers with gaps.
    """
    slots: dict[int, int] = {}
    numbers: set[int] = set()
    count = 0
    for i, word in enumerate(text.words):
        if word == "?":
            _refuse_mixture(text, i, mixed=bool(numbers))
            if text.words[i + 1] == "0" and text.start(i + 1) == text.end(i):
                raise text.error(i, "Numbered parameters are written $1, $2, ...; this one stands")
            slots[i] = count
            count += 1
        elif word == "$":
            _refuse_mixture(text, i, mixed=count > 0)
            number = text.tokens[i + 1].text if text.words[i + 1] == "0" else ""
            if not number.isdecimal() or int(number) < 1 or text.start(i + 1) != text.end(i):
                raise text.error(i, "A parameter is ? or $1, $2, ...; names are not offered; this one stands")
            numbers.add(int(number))
            slots[i] = int(number) - 1
    if not numbers:
        return slots, count
    missing = sorted(set(range(1, min(max(numbers), len(numbers) + 1) + 1)) - numbers)
    if missing:
        raise InvalidInputError(
            f"The statement uses parameter ${max(numbers)} but never ${missing[0]}; "
            "number parameters without gaps"
        )
    return slots, len(numbers)


def _refuse_mixture(text: SqlText, index: int, *, mixed: bool) -> None:
    if mixed:
        raise text.error(index, "Parameters are either all ? or all $n; the first of the other kind stands")
