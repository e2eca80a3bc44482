"""Writes a statement without the forms of the standard that DataFusion lacks or misreads.

    SELECT sum(n) OVER (w ORDER BY id) FROM t WHERE (a, b) < ($1, 2) WINDOW w AS (PARTITION BY k)
->  SELECT sum(n) OVER (PARTITION BY k ORDER BY id) FROM t WHERE (a < $1 OR (a = $1 AND b < 2))
    WINDOW w AS (PARTITION BY k)

The text is written before its names are resolved, so that all other rewrites see what DataFusion will plan. A
text that has none of these forms stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from planner.sql.edits import Edit, apply_edits
from planner.sql.forms import write_forms, write_forms_of_expression
from planner.sql.standard.instants.formats import FORMATTED, translate_formats
from planner.sql.standard.instants.fractions import name_units
from planner.sql.standard.instants.late_instants import name_late_units
from planner.sql.standard.instants.local_times import LOCAL, tell_local_times
from planner.sql.standard.instants.read_texts import READERS, type_read_texts
from planner.sql.standard.instants.time_units import name_time_units
from planner.sql.standard.spellings.hexadecimals import write_decimals
from planner.sql.standard.spellings.json_changes import cast_to_json, test_json, write_json_changes
from planner.sql.standard.spellings.json_paths import ARROWS, JSON_CALLS, write_arrows, write_json_calls
from planner.sql.standard.spellings.json_values import CHANGES, JSON_TYPES, VALUES, write_json_values
from planner.sql.standard.spellings.refusals import REFUSED, refuse_functions
from planner.sql.standard.spellings.synonyms import SYNONYMS, write_synonyms
from planner.sql.standard.spellings.uuids import cast_to_uuids
from planner.sql.tokens import STRING, SqlText, number_parameters, tokenize


@dataclass(frozen=True, slots=True)
class Form:
    """A form that is written in another way.

    Attributes:
        words: a text without any of these words does not have the form.
        edits: yields the edits of a text.
    """

    words: frozenset[str]
    edits: Callable[[SqlText], Iterator[Edit]]


FORMS: Final = (
    Form(frozenset(REFUSED), refuse_functions),
    Form(frozenset(ARROWS), write_arrows),
    Form(JSON_CALLS, write_json_calls),
    Form(frozenset({"JSON"}), test_json),
    # These see by calls and casts of others what is JSON.
    Form(CHANGES, write_json_changes),
    Form(VALUES, write_json_values),
    Form(JSON_TYPES, cast_to_json),
    Form(SYNONYMS, write_synonyms),
    Form(FORMATTED, translate_formats),
    Form(READERS, type_read_texts),
    Form(LOCAL, tell_local_times),
    Form(frozenset({STRING}), write_decimals),
    Form(frozenset({"TIME"}), name_time_units),
    Form(frozenset({"UUID"}), cast_to_uuids),
    Form(frozenset({"TIMESTAMP", "TIMESTAMPTZ"}), name_units),
    Form(frozenset({"TIMESTAMP", "TIMESTAMPTZ"}), name_late_units),
)


def spell_out(text: SqlText, *, is_expression: bool = False) -> SqlText:
    """Return the statement, or the expression, without these forms; the same object if it has none.

    Raises:
        LanceGatewayError: one of them can't be written for DataFusion.
    """
    words = frozenset(text.words)
    for form in FORMS:
        if words.isdisjoint(form.words):
            continue
        edits = list(form.edits(text))
        if edits and "?" in words:
            # Edits copy parameters, which then must have numbers.
            text, words = _number(text), words - {"?"}
            edits = list(form.edits(text))
        if edits:
            text = tokenize(apply_edits(text.sql, edits))
    return write_forms_of_expression(text) if is_expression else write_forms(text)


def _number(text: SqlText) -> SqlText:
    slots, _ = number_parameters(text)
    edits = [Edit.replace(text.start(at), text.end(at), f"${ordinal + 1}") for at, ordinal in slots.items()]
    return tokenize(apply_edits(text.sql, edits))
