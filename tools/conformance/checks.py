"""The checks of the kit. Each gets a memory without data, and returns one sentence of evidence or raises Failed.

A check first makes sure that a document is shown as long as it should be: a memory that shows nothing passes no check.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from tools.conformance.memory import Memory, eventually

CLIENTS, WRITES_EACH = 8, 12
"""Fewer than a hundred writes in all: the first page of most lists."""
KILLED_AFTER = 40
READS = ("list", "search", "get")
"""The operations whose answers can show a document."""


class Failed(Exception):
    """A promise that the memory breaks; the message is the evidence."""


class Note(NamedTuple):
    """A text of made-up words: one to search it by, and one that only an answer that shows the text contains."""

    subject: str
    secret: str

    @property
    def text(self) -> str:
        return f"The {self.subject} key hangs in the {self.secret} cabinet."


def new() -> Note:
    """Return a note whose words occur nowhere else, and resemble no password or number."""
    return Note(_word(), _word())


def survives_kill(memory: Memory) -> str:
    """Kill the memory while clients write; then all acknowledged writes are listed."""
    acknowledged, enough = list[Note](), threading.Event()

    def write() -> None:
        with suppress(OSError):  # after the kill
            for _ in range(WRITES_EACH):
                write_of(memory, note := new())
                acknowledged.append(note)
                if len(acknowledged) >= KILLED_AFTER:
                    enough.set()

    with ThreadPoolExecutor(CLIENTS) as pool:
        for _ in range(CLIENTS):
            pool.submit(write)
        enough.wait(60)
        memory.kill()
    memory.start()
    return _each_once(memory, acknowledged, "acknowledged before the kill")


def stores_once(memory: Memory) -> str:
    """Send one write again: after an acknowledgment, several times at once, and after a kill."""
    note = new()
    write_of(memory, note)
    with ThreadPoolExecutor(CLIENTS) as pool:
        for _ in range(CLIENTS):
            pool.submit(write_of, memory, note)
    memory.restart()
    with suppress(OSError):  # a memory can also refuse a repeat
        write_of(memory, note)
    return _each_once(memory, [note], f"written {CLIENTS + 2} times with one id")


def loses_nothing(memory: Memory) -> str:
    """Write with several clients at a time; then every write is listed once."""
    notes = [new() for _ in range(CLIENTS * WRITES_EACH)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(partial(write_of, memory), notes))
    return _each_once(memory, notes, f"written by {CLIENTS} clients at a time")


def deletes(memory: Memory) -> str:
    """Delete one of two documents: no read shows it, also after a restart, and the other remains."""
    note, other = new(), new()
    key, other_key = write_of(memory, note), write_of(memory, other)
    _seen(memory, note, key, READS, "before the deletion")
    memory.call("delete", key=key, agent="ada")
    _seen(memory, note, key, (), "after the deletion")
    memory.restart()
    _seen(memory, other, other_key, READS, "another document, after a restart")
    _seen(memory, note, key, (), "after the deletion and a restart")
    return "no read shows the document, also after a restart; another document remains"


def rebuilds(memory: Memory) -> str:
    """Change a document in the store, past the log: a rebuild restores what was written."""
    note = new()
    planted = note._replace(secret=_word())
    key = write_of(memory, note)
    _seen(memory, note, key, READS, "before the rebuild")
    memory.run("plant", text=note.secret, planted=planted.secret)
    memory.restart()
    _seen(memory, planted, key, READS, "the planted document")
    memory.run("rebuild")
    _seen(memory, planted, key, (), "the planted document, after the rebuild")
    _seen(memory, note, key, READS, "the written document, after the rebuild")
    return "the planted document was shown before the rebuild, and only the written one after it"


def separates_readers(memory: Memory) -> str:
    """Write a document for one agent: no read of another agent shows it."""
    note = new()
    key = write_of(memory, note, "private")
    _seen(memory, note, key, READS, "for its own reader")
    _seen(memory, note, key, (), "for another reader", "bob")
    return "each read shows the document to its reader, and none to another"


CHECKS: Mapping[str, Callable[[Memory], str]] = {
    "acknowledged writes survive kill -9": survives_kill,
    "a repeat is stored once": stores_once,
    "concurrent writers lose nothing": loses_nothing,
    "deletion leaves nothing": deletes,
    "rebuild removes a planted document": rebuilds,
    "readers see only theirs": separates_readers,
}


def write_of(memory: Memory, note: Note, operation: str = "write") -> str:
    """Write a note; returns the document's id when the write is acknowledged. Its subject is the client's id."""
    answer = memory.call(operation, text=note.text, id=note.subject, agent="ada")
    return answer if "answer" in memory.adapter[operation] else note.subject


def _word() -> str:
    return "".join(random.choice("bdfgklmnprstvz") + random.choice("aeiou") for _ in range(7))


def _seen(memory: Memory, note: Note, key: str, expected: tuple[str, ...], when: str, agent: str = "ada") -> None:
    """Raise Failed unless these reads show the note, and no others, now or soon."""

    def shows(read: str) -> bool:
        with suppress(OSError):  # such as a status of 404
            return note.secret in memory.call(read, query=note.subject, key=key, agent=agent)
        return False

    if not eventually(lambda: [*filter(shows, READS)] == [*expected]):
        raise Failed(f"{when}, it is shown by: {', '.join(filter(shows, READS)) or 'no read'}")


def _each_once(memory: Memory, notes: list[Note], how: str) -> str:
    """Return how many notes are listed; raise Failed if one is missing, or there twice."""

    def counts() -> list[int]:
        listed = memory.call("list", agent="ada")
        return [listed.count(memory.adapter["copy"].format(text=note.text)) for note in notes]

    eventually(lambda: all(counts()))
    time.sleep(1)  # a repeat can be stored late
    numbers = counts()
    evidence = f"{len(notes)} {how}: {numbers.count(0)} missing, {sum(n > 1 for n in numbers)} stored more than once"
    if not notes or set(numbers) != {1}:
        raise Failed(evidence)
    return evidence
