"""Replays the letters of a topic and settles each message by what became of its letter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from loader.dead_letter.replay import Result
from loader.dead_letter.store import LetterStore, StoredLetter
from loader.dead_letter.topic import Found, LetterTopic

Run = Callable[[Iterable[list[StoredLetter]]], Iterator[Result]]
"""Replay.run, or Rehearsal.run with its connection."""


def replay_topic(topic: LetterTopic, store: LetterStore, run: Run, *, dry_run: bool) -> Iterator[Result]:
    """One result a message. A message whose letter is refused goes only if the letter is open in the table; what is
    no letter stays. With `dry_run` all stay. Raises what `run` and the topic raise; nothing unsettled is acknowledged.
    """
    try:
        for batch in topic.batches():
            yield from _replay(topic, store, run, batch, dry_run)
    finally:
        topic.close()


def _replay(topic: LetterTopic, store: LetterStore, run: Run, batch: list[Found], dry_run: bool) -> Iterator[Result]:
    letters: dict[str, StoredLetter] = {}
    for found in batch:
        if found.letter is not None and not found.settled:
            letters[found.letter.letter_id] = found.letter
    # The export is at least once: two messages may hold one letter.
    results = {result.letter_id: result for result in run([list(letters.values())])} if letters else {}
    for found in batch:
        result = _result(found, results)
        gone = result.outcome != "refused" or _is_open(store, result.letter_id)
        if dry_run or not gone:
            topic.keep([found.message])
        else:
            topic.settle([found.message])
        yield result


def _result(found: Found, results: dict[str, Result]) -> Result:
    letter = found.letter
    if letter is None:
        told = found.message.attributes
        name = told.get("letter_id", found.message.message_id)
        return Result(name, told.get("event_id", ""), "refused", "", f"stays in the topic: {found.problem}")
    if found.settled:
        return Result(letter.letter_id, letter.event_id, "loaded", letter.table_name or "", "resolved before")
    return results[letter.letter_id]


def _is_open(store: LetterStore, letter_id: str) -> bool:
    return any(letter.letter_id == letter_id and letter.resolved_at is None for letter in store.find(letter_id))
