"""Trust classes: the origin of a document's text, which determines how contexts show it and what can be derived from
it. Pure.

The class follows from the kind and source of the event. A caller can claim a lower class, never a higher one. What has
been derived has the lowest class of its sources.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ingest.events.envelope import Recorded, Trust
from ingest.nouns.memory import MemoryCondensed
from ingest.nouns.session import SessionSummarised
from ingest.patterns import which_occur
from ingest.platform.files import toml_beside
from projections.text.turns import Turn

LOWEST_FIRST: tuple[Trust, ...] = ("external", "tool_output", "imported", "agent_concluded", "user_stated")
IMPORTED = "import"
"""The source of imported events."""
_READING = frozenset(("file_read", "search", "command_run"))
"""Kinds of observation whose text is what a tool read, unless it is the text of the call alone."""


BY_RULE, BY_OPERATOR = "rule", "operator"
"""Why a document is in quarantine: its text reads as an instruction, or an operator put it there."""


_RANKS: dict[Trust, int] = {trust: rank for rank, trust in enumerate(LOWEST_FIRST)}
rank = _RANKS.__getitem__
"""The place of a class, 0 for the lowest."""


def lowest(classes: Iterable[Trust]) -> Trust:
    """The lowest of some classes; of none, what an agent concluded."""
    return LOWEST_FIRST[min(map(rank, classes), default=rank("agent_concluded"))]


def is_data(trust: Trust) -> bool:
    """Whether a text is shown as data: neither the user nor an agent stated it."""
    return rank(trust) < rank("agent_concluded")


def is_stated(document: Any) -> bool:
    """Whether lessons, facts and other memories may be derived from a document: the user or an agent stated it."""
    return not is_data(document.trust) and not document.quarantined


def is_condensed(document: Any) -> bool:
    """Whether a memory may be condensed with others, which replaces it and adds nothing: also one of an import."""
    return rank(document.trust) >= rank("imported") and not document.quarantined


def below(least: Trust | None) -> list[tuple[str, str]]:
    """The facets that a search for documents of a class or a higher one leaves out; none for no limit."""
    return [] if least is None else [("trust", lower) for lower in LOWEST_FIRST[: rank(least)]]


def trust_of(recorded: Recorded, said_by: Trust | None = None) -> Trust:
    """The class of what an event says; `said_by` is the class of an observation's text.

    A write that names no agent comes from a person, unless it says what it was derived from.
    """
    envelope, data = recorded.envelope, recorded.data
    made = isinstance(data, (SessionSummarised, MemoryCondensed)) or getattr(data, "derived_from", None)
    by_person = not (made or envelope.agent_id) and envelope.source == "native"
    trust = said_by or ("user_stated" if by_person else "agent_concluded")
    if envelope.source == IMPORTED:
        trust = lowest((trust, "imported"))
    return lowest((trust, envelope.trust)) if envelope.trust else trust


def said_by(turn: Turn, kind: str, role: str, content: str, data: Mapping[str, Any]) -> Trust:
    """The class of an observation's text, by what it was compressed to and what was reported.

    A call of a tool that was written down as text is the agent's in one line; more lines have its output.
    """
    if tool := data.get("tool_name"):
        output = data.get("tool_output")
        if tool == "conversation" or (output and output == data.get("tool_input")):
            return "agent_concluded"  # the agent's own words, reported as a call
        return "external" if kind == "web_fetch" else "tool_output"
    if turn == "harness":  # notifications, reminders and output of commands, in the place of a prompt
        return "tool_output"
    if turn == "user":
        return "user_stated"
    if role == "tool_call" and "\n" not in content and not data:
        return "agent_concluded"
    if kind == "web_fetch":
        return "external"
    is_output = kind in _READING or role in ("tool_call", "tool_result") or data.get("tool_output") is not None
    return "tool_output" if is_output else "agent_concluded"


def _beginnings() -> Iterator[tuple[str, re.Pattern[str]]]:
    table = toml_beside(__file__, "planted.toml")
    for planted in table["planted"]:
        follows = planted["follows"]
        for name, part in table["parts"].items():
            follows = follows.replace(f"<{name}>", part)
        pattern = re.compile(follows.replace("\n", ""))
        yield from ((sign, pattern) for sign in planted["begins"])


_BEGINNINGS = list(_beginnings())
"""How planted instructions begin, in several languages, and what follows."""
_beginnings_in = which_occur([sign for sign, _ in _BEGINNINGS])
_INVISIBLE = re.compile("[\u200b-\u200f\u2060\ufeff\u00ad]")
_WITHIN = 300
"""Characters from the beginning of an instruction to its end."""


def hidden_by_rule(trust: Trust, texts: Iterable[str]) -> str:
    """Why a new document is in quarantine: BY_RULE for data that reads as an instruction, else empty."""
    return BY_RULE if is_data(trust) and reads_as_instruction("\n".join(texts)) else ""


def reads_as_instruction(text: str) -> bool:
    """Whether a text gives orders to the model that reads it, as planted instructions do: to ignore what it was told,
    to become something else, to hide something from its user, to send secrets somewhere."""
    lowered = (text if text.isascii() else _INVISIBLE.sub("", text)).lower()
    # as plain text first: one regular expression for all of them takes a hundred times as long
    return any(_follows(lowered, *_BEGINNINGS[number]) for number in _beginnings_in(lowered))


def _follows(lowered: str, sign: str, follows: re.Pattern[str]) -> bool:
    at = lowered.find(sign)
    while at >= 0:
        end = at + len(sign)
        begins = not at or not lowered[at - 1].isalnum() or sign[0].upper() == sign[0]
        denied = lowered[max(0, at - 6) : at].endswith(("not ", "n't ", "never "))
        if begins and not denied and follows.match(lowered, end, end + _WITHIN):
            return True
        at = lowered.find(sign, end)
    return False
