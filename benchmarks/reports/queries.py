"""The measured SQL, in one place because families share it."""

from typing import Final

TABLE_NAME: Final = "items"
FILTERED_QTY: Final = 7

GROUP_BY: Final = f"SELECT grp, sum(price) AS total, count(*) AS n FROM {TABLE_NAME} GROUP BY grp"
FILTERED: Final = f"SELECT id, price FROM {TABLE_NAME} WHERE qty = {FILTERED_QTY}"
COUNT: Final = f"SELECT count(*) AS n FROM {TABLE_NAME}"
LOOKUP: Final = f"SELECT * FROM {TABLE_NAME} WHERE id = $1"
STREAM: Final = f"SELECT id, grp, price FROM {TABLE_NAME}"


def build_following(since: int) -> str:
    """Return the SQL that follows what is written after a version of the base table."""
    return f"SELECT id FROM lance_changes('{TABLE_NAME}', since => {since}, follow => true)"


def build_vector_search(vector: str, *, k: int, **options: object) -> str:
    """Return the SQL of a vector search; the vector may be a parameter."""
    arguments = _format_arguments(f"'{TABLE_NAME}'", "'vec'", vector, k=k, **options)
    return f"SELECT id, _distance FROM lance_vector_search({arguments})"


def build_text_search(text: str, *, k: int) -> str:
    """Return the SQL of a full-text search; the text may be a parameter."""
    arguments = _format_arguments(f"'{TABLE_NAME}'", "'text'", text, k=k)
    return f"SELECT id, _score FROM lance_fts({arguments})"


def build_hybrid_search(vector: str, text: str, *, k: int, **options: object) -> str:
    """Return the SQL of a hybrid search; the vector and the text may be parameters."""
    arguments = _format_arguments(f"'{TABLE_NAME}'", "'vec'", vector, "'text'", text, k=k, **options)
    return f"SELECT id, _hybrid_score FROM lance_hybrid_search({arguments})"


def _format_arguments(*positional: str, **named: object) -> str:
    return ", ".join([*positional, *(f"{name} => {value}" for name, value in named.items())])
