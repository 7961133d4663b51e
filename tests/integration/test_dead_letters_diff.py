from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from status_harness import Dataset, message


@pytest.fixture
def dataset(database_url):
    found = Dataset(database_url)
    yield found
    found.conn.close()


def diff(dataset, *arguments, **environ):
    done = dataset.loader("dead-letters", "diff", *arguments, "--json", **environ)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    return document["counts"], {letter["event_id"]: letter for letter in document["letters"]}


def test_each_value_is_shown_with_its_place_and_the_letters_that_would_load_are_named(dataset):
    dataset.load(message(1, {"type": "order", "n": 1}))
    frozen = {"schema_contract": "freeze"}
    dataset.load(
        message(2, {"type": "order", "n": "two", "more": True, "items": [{"s": 1}]}),
        message(3, b"nonsense"),
        **frozen,
    )
    before = dataset.rows("select count(*) from events._schema_log")
    counts, letters = diff(dataset, "--all")
    assert counts == {"loaded": 1, "discarded": 0, "refused": 1}
    cells = {(cell["table"], cell["column"]): (cell["data_type"], cell["state"]) for cell in letters["m2"]["cells"]}
    assert cells == {
        ("order", "type"): ("text", "there"),
        ("order", "n__v_text"): ("text", "new variant"),
        ("order", "more"): ("bool", "new column"),
        ("order__items", "s"): ("bigint", "new table"),
    }
    assert letters["m3"]["cells"] == []
    assert letters["m3"]["reason"].startswith("not JSON")
    assert "froz" in letters["m2"]["stored_reason"]
    assert dataset.rows("select count(*) from events._schema_log") == before
    # With the contract still in force it would be refused again.
    counts, letters = diff(dataset, "m2", LOADER_SCHEMA_CONTRACT="freeze")
    assert counts["refused"] == 1


def test_letters_are_compared_each_for_itself(dataset):
    dataset.load(message(1, {"type": "order", "n": 1}))
    dataset.load(
        message(2, {"type": "order", "x": 1}), message(3, {"type": "order", "x": "1"}), schema_contract="freeze"
    )
    _, letters = diff(dataset, "--all")
    states = {name: {(c["column"], c["state"]) for c in letter["cells"]} for name, letter in letters.items()}
    assert states["m2"] == {("type", "there"), ("x", "new column")} == states["m3"]


def test_in_words_for_people(dataset):
    dataset.load(message(1, {"type": "order", "n": 1}))
    dataset.load(message(2, {"type": "order", "n": 2, "x\x1b[2J": 5}), schema_contract="freeze")
    done = dataset.loader("dead-letters", "diff", "--all")
    assert done.returncode == 0, done.stderr
    assert "would be loaded" in done.stdout
    assert "new column" in done.stdout
    assert "\x1b" not in done.stdout
