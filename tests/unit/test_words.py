"""Numbers with their nouns."""

from __future__ import annotations

import pytest

from loader.words import counted


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "row", "0 rows"),
        (1, "row", "1 row"),
        (2_000, "message", "2,000 messages"),
        (1, "loss", "1 loss"),
        (3, "loss", "3 losses"),
    ],
)
def test_a_noun_is_in_its_number(number, noun, text):
    assert counted(number, noun) == text
