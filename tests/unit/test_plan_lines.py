from __future__ import annotations

import pytest

from loader.errors import LoaderError
from loader.learn.lines import read_lines


def read(tmp_path, data, limit=100):
    path = tmp_path / "in.jsonl"
    path.write_bytes(data)
    return [
        None if line is None else (line[0], line[1].data) for line in read_lines(str(path), limit, {"source": "test"})
    ]


def test_lines_are_numbered_by_the_file_and_empty_ones_are_told(tmp_path):
    assert read(tmp_path, b'{"a":1}\r\n\n  \n{"a":2}') == [
        ("in.jsonl:1", b'{"a":1}'),
        None,
        None,
        ("in.jsonl:4", b'{"a":2}'),
    ]


@pytest.mark.parametrize("length", [100, 101, 102, 103, 2_000_000])
def test_a_long_line_is_one_message_and_the_next_one_is_whole(tmp_path, length):
    (_, long), (origin, after) = read(tmp_path, b"x" * length + b"\nnext\n")
    assert len(long) == min(length, 102)
    assert (origin, after) == ("in.jsonl:2", b"next")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(LoaderError, match=r"missing\.jsonl"):
        list(read_lines(str(tmp_path / "missing.jsonl"), 100, {}))
