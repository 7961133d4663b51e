"""Numbers with their nouns, as people write them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 row`, `2,000 rows`, `2 losses`: the number, its thousands apart, and the noun in its number."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}{'es' if noun.endswith(('s', 'x', 'ch')) else 's'}"
