"""Differences that are known, each with its reason."""


def known(judge: str, operator: str, text: str, detail: str) -> str | None:
    """Return why a difference is none, or None."""
    del judge, operator, text, detail
    return None
