"""What a session came to so far, from its turns: exchanges, decisions in force, open work. Pure.

A later decision on the same subject replaces an earlier one; open work goes when an agent says that it is done. It is
read again whenever it is asked for, so a deleted turn leaves nothing in it, and a replay says the same.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from projections.text.changes import announces
from projections.text.sentences import each_headed, is_courtesy, shortened, term_set
from projections.text.terms import terms
from projections.text.turns import Turn
from projections.text.words_of_languages import tables

_WORDS = tables("session_words.toml")
_DECIDED, _UNDECIDED, _OPEN = _WORDS["decided"], _WORDS["undecided"], _WORDS["open"]
_FINISHED, _PLANNED, _SMALL_TALK = _WORDS["finished"], _WORDS["planned"], _WORDS["small_talk"]

TURN_CHARS = 8_000
"""Of one turn: what is decided and left stands at the end of long answers, too."""
ENTRIES = 30
"""Decisions and open points in force at a time, the newest."""
EXCHANGES = 40
"""The newest."""
REQUEST_CHARS, ANSWER_CHARS = 160, 260
SAME_SUBJECT = 0.5
"""Share of the shorter statement's terms from which one that announces a change is about the subject of the other."""
SAME_STATEMENT = 0.6
"""Share of all terms of two statements from which the later one repeats the earlier one."""
DONE = 0.6
"""Share of an open point's terms from which a later statement says that it is done."""
_FEWEST_SHARED = 2
_OF_ANY = term_set(
    "we i decided decision agreed agree choose chose chosen settled remaining remains remain left still open todo need"
    " needs pending next step steps not yet done finished now will use using switch switched because since instead"
)
"""Terms that say nothing of the subject."""


class Entry(NamedTuple):
    """A statement, and the number of its turn."""

    text: str
    number: int


class Exchange(NamedTuple):
    """What a user asked for, and the beginning of the agent's last answer to it; the number of that turn."""

    request: str
    answer: str
    number: int


class Story(NamedTuple):
    """A session so far; every list is oldest first."""

    exchanges: list[Exchange]
    decisions: list[Entry]
    remaining: list[Entry]


def decides(sentence: str, heading: str = "") -> bool:
    """Returns whether a sentence states a decision; a denial or a question does not."""
    stated = _DECIDED.are_in(sentence) or (_is_title(heading) and _DECIDED.are_in(f"{heading}:"))
    return stated and not _asks(sentence) and not any(map(_UNDECIDED.are_in, (sentence, heading)))


def leaves_open(sentence: str, heading: str = "") -> bool:
    """Returns whether a sentence names work that is not done."""
    stated = _OPEN.are_in(sentence) or (_is_title(heading) and _OPEN.are_in(f"{heading}:"))
    denied = chain(map(_FINISHED.are_in, (sentence, heading)), [_UNDECIDED.are_in(sentence)])
    return stated and not _asks(sentence) and not any(denied)


def is_small_talk(prompt: str) -> bool:
    """Returns whether a prompt only greets, thanks, approves or says goodbye. A question of some words does not."""
    if len(prompt) > REQUEST_CHARS or (_asks(prompt) and len(prompt.split()) > _TITLE_WORDS):
        return False
    return not terms(" ".join(re.findall(r"\w+", _SMALL_TALK.without(prompt))))


def _is_title(heading: str) -> bool:
    """Whether a heading says what the items below it are, not something of its own."""
    return bool(heading) and len(heading.split()) <= _TITLE_WORDS


def is_work(turn: Turn, text: str) -> bool:
    """Returns whether a turn makes its session more than a greeting, a test or a question: a tool or a subagent was
    called, or somebody stated something."""
    if turn in ("tool", "subagent"):
        return True
    if turn not in ("user", "agent"):
        return False
    sentences = list(each_headed(text))
    stated = (sentence for _, sentence in sentences if not _asks(sentence) and not is_courtesy(sentence))
    if len(frozenset(chain.from_iterable(map(term_set, stated)))) >= _WORK_TERMS:
        return not is_small_talk(text)
    return any(decides(sentence, heading) or leaves_open(sentence, heading) for heading, sentence in sentences)


_TITLE_WORDS = 5
_WORK_TERMS = 6
"""Terms; "Hello! What would you like to work on?" states none, "The test server is up again" four."""


def story_of(turns: Sequence[tuple[Turn, str]]) -> Story:
    """Returns the story of a session's turns, in time order. Only the words of users and agents count."""
    telling = _Telling()
    for index, (turn, text) in enumerate(turns):
        if turn in ("user", "agent"):
            telling.hear(index, turn, text)
    return telling.story()


class _Telling:
    """A story while its turns are read."""

    def __init__(self) -> None:
        self._decisions: list[_Point] = []
        self._remaining: list[_Point] = []
        self._exchanges: list[Exchange] = []

    def story(self) -> Story:
        exchanges = [exchange for exchange in self._exchanges if exchange.request or exchange.answer]
        return Story(exchanges[-EXCHANGES:], _entries(self._decisions), _entries(self._remaining))

    def hear(self, index: int, turn: Turn, text: str) -> None:
        # without blank lines, of which the split into lines would look at each run again and again
        lines = "\n".join(line for line in text[:TURN_CHARS].splitlines() if line.strip())
        sentences = list(each_headed(lines, chars=TURN_CHARS))
        if turn == "user":
            self._ask(index, _first(sentences, REQUEST_CHARS))
        else:
            self._answer(index, _first(sentences, ANSWER_CHARS))
        for heading, sentence in sentences:
            if _PLANNED.are_in(sentence) and not _DECIDED.are_in(sentence):
                continue
            point = _Point(shortened(sentence, ANSWER_CHARS), index, term_set(sentence) - _OF_ANY)
            if decides(sentence, heading):
                self._decisions = [*(old for old in self._decisions if not _replaces(point, old)), point]
            elif turn == "agent":
                self._state(point, sentence, heading)

    def _ask(self, index: int, request: str) -> None:
        last = self._exchanges[-1] if self._exchanges else None
        if last is not None and not last.answer:  # several prompts before an answer: the newest one counts
            self._exchanges.pop()
        self._exchanges.append(Exchange(request or (last.request if last and not last.answer else ""), "", index))

    def _answer(self, index: int, answer: str) -> None:
        request = self._exchanges.pop().request if self._exchanges else ""
        if answer:
            self._exchanges.append(Exchange(request, answer, index))

    def _state(self, point: "_Point", sentence: str, heading: str) -> None:
        """An agent's sentence that decides nothing new: what it leaves open, finishes or changes."""
        if _FINISHED.are_in(sentence):
            self._remaining.clear()
        elif leaves_open(sentence, heading):
            self._remaining = [*(old for old in self._remaining if not _repeats(point, old)), point]
        elif not _asks(sentence):
            changed = [old for old in self._decisions if announces(sentence) and _replaces(point, old)]
            if changed:
                self._decisions = [*(old for old in self._decisions if old not in changed), point]
            self._remaining = [old for old in self._remaining if not _finishes(point, old)]


class _Point(NamedTuple):
    text: str
    number: int
    terms: frozenset[str]


def _entries(points: Iterable[_Point]) -> list[Entry]:
    return [Entry(point.text, point.number) for point in points][-ENTRIES:]


def _asks(sentence: str) -> bool:
    return sentence.rstrip("\"'»” ").endswith(("?", "？"))


def _first(sentences: Sequence[tuple[str, str]], chars: int) -> str:
    """The first sentences that state something, as far as they fit."""
    texts = [sentence for _, sentence in sentences]
    stated = [text for text in texts if not is_courtesy(text) and not _PLANNED.are_in(text)]
    return shortened(" ".join((stated or texts)[:2]), chars)


def _repeats(new: _Point, old: _Point) -> bool:
    return len(new.terms & old.terms) >= SAME_STATEMENT * max(1, len(new.terms | old.terms))


def replaces(new: str, old: str) -> bool:
    """Returns whether a later statement repeats an earlier one, or announces a change of its subject."""
    return _replaces(*(_Point(text, 0, term_set(text) - _OF_ANY) for text in (new, old)))


def _replaces(new: _Point, old: _Point) -> bool:
    """Whether a decision takes the place of an earlier one: it says the same, or announces a change of its subject."""
    if _repeats(new, old):
        return True
    shared = len(new.terms & old.terms)
    least = max(_FEWEST_SHARED, SAME_SUBJECT * min(len(new.terms), len(old.terms)))
    return announces(new.text) and shared >= least


def _finishes(new: _Point, old: _Point) -> bool:
    shared = len(new.terms & old.terms)
    return shared >= max(min(_FEWEST_SHARED, len(old.terms)), DONE * len(old.terms)) and shared > 0
