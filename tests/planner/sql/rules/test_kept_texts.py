"""What was made of texts is kept within a limit of characters."""

from lance_gateway.planner.sql.rules import KeptTexts


def test_long_texts_take_the_place_of_others() -> None:
    kept, made = KeptTexts[str](), []

    def make(sql: str) -> str:
        return kept.make(sql, {}, {}, lambda: made.append(sql[:1]) or sql)  # type: ignore[func-returns-value]

    short, long, longest = "s", "l" * 1_500_000, "x" * 5_000_000
    assert [make(short), make(long), make(short), make(long)] == [short, long, short, long]
    assert made == ["s", "l"]
    # A text that is longer than the limit is not kept, and drops no other one.
    assert [make(longest), make(longest), make(short)] == [longest, longest, short]
    assert made == ["s", "l", "x", "x"]
    make("m" * 1_500_000)
    make(long)
    assert made == ["s", "l", "x", "x", "m", "l"]
