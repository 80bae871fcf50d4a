"""Consolidation: what many observations, sessions or memories have in common, by agentmemory's rules.

Guarantee: pure and extractive: of sentences that somebody said, each with the sources that say it. The same members
give the same text, so that consolidating again changes nothing; one topic is one concept, so that new members give
a new version of the same memory.
"""

import re
from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import chain

from msgspec import Struct

from ingest.log.position import Position
from projections.compression.accounts import account, in_time
from projections.compression.sentences import alike_groups, fitting, leading, shortened, statements, term_set
from projections.condensing.claims import SAME_CLAIM, claim_groups, claims_in, says
from projections.condensing.sessions import Digest
from projections.condensing.topics import about, written
from projections.documents.memories import TITLE_CHARS, Memory
from projections.documents.observations import Observation
from projections.search.similarity import SIMILAR_ABOVE

MIN_IMPORTANCE = 5
TOPICS = 10
CONTENT_CHARS = 1200
FACTS = 10
FEWEST_SESSIONS = 5
"""With fewer summaries, what recurs is still chance."""
NEWEST_SESSIONS = 20
STEPS = 10
PATTERN = "pattern"
"""The tag of a memory that agentmemory's clients saved with this type."""

_LINE_CHARS = 240
_FEWEST_TERMS = 3
"""A statement of fewer is in every session ("All tests pass.") and tells nothing."""
_ADDRESSED = re.compile(r"\b(?:you|your|yours|please)\b|\A\W*(?:yes|no|sure|thanks?),", re.IGNORECASE)
_STEP = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+(?P<step>.*\S)", re.MULTILINE)


class Topic(Struct, frozen=True):
    """A memory about what observations have in common; `sources` are those whose words it has."""

    concept: str
    title: str
    content: str
    sources: list[str]


class Fact(Struct, frozen=True):
    """A sentence, and the digests that state it, or nearly the same, by their place among those given."""

    content: str
    sources: list[int]


class Procedure(Struct, frozen=True):
    """How something is done, and the memories that say so, newest first."""

    name: str
    steps: list[str]
    sources: list[str]


def find_topics(
    observations: Iterable[Observation],
    min_importance: int = MIN_IMPORTANCE,
    min_members: int = 3,
    max_topics: int = TOPICS,
    top: int = 8,
) -> list[Topic]:
    """Returns what several important observations claim of a topic, the most spoken of first, ties by concept.

    At least `min_members` of them do; the `top` most important, the newest of equals, are told. A topic of which most
    is told under another already is left out, as is one that a single observation is left to tell of.
    """
    seen = sorted((one for one in observations if one.importance >= min_importance), key=in_time)
    found: list[Topic] = []
    told: set[str] = set()
    for concept, said in sorted(about(seen, _claims).items(), key=lambda one: (-len(one[1]), one[0])):
        if len(said) < min_members:
            continue
        places = _top([(seen[place].importance, place) for place in said], top)
        topic = _topic(concept, [seen[place] for place in places], [said[place] for place in places])
        lines = topic.content.splitlines()[1:]
        if len(topic.sources) > 1 and 2 * len(told.intersection(lines)) <= len(lines):
            told.update(lines)
            found.append(topic)
            if len(found) == max_topics:
                break
    return found


def facts_of(summaries: Sequence[Digest]) -> list[Fact]:
    """Returns what holds across sessions: what at least two digests state, and what was decided; the surest first.

    `summaries` are in time order; the newest 20 count, fewer than five give nothing. A fact is in its newest wording.
    """
    if len(summaries) < FEWEST_SESSIONS:
        return []
    said: list[tuple[int, bool, str]] = []
    for place in range(len(summaries) - 1, max(-1, len(summaries) - 1 - NEWEST_SESSIONS), -1):
        one = summaries[place]
        said += [(place, True, claim) for decision in one.decisions for claim in _facts_in(decision)]
        said += [(place, False, claim) for claim in _facts_in(one.narrative)]
    sets = [term_set(text) for *_, text in said]
    ranked: list[Fact] = []
    for group in claim_groups([text for *_, text in said], SAME_CLAIM):
        sessions = sorted({said[index][0] for index in group})
        decided = any(said[index][1] for index in group)
        if len(sets[group[0]]) >= _FEWEST_TERMS and (len(sessions) > 1 or decided):
            ranked.append(Fact(said[group[0]][2], sessions))
    return sorted(ranked, key=lambda fact: -len(fact.sources))[:FACTS]


def procedures_of(memories: Iterable[Memory]) -> list[Procedure]:
    """Returns how things are done, from procedural and pattern memories that alike were said in at least two sessions.

    Superseded versions belong into `memories`: saying a pattern again supersedes it, and the old version is the proof
    that another session said it. A group without a latest version gives nothing. The most often said first.
    """
    newest_first = sorted(
        (one for one in memories if one.memory_type == "procedural" or PATTERN in map(str.lower, one.tags)),
        key=lambda one: Position.parse(one.position),
        reverse=True,
    )
    found: list[tuple[int, Procedure]] = []
    for group in alike_groups([term_set(one.content) for one in newest_first], SIMILAR_ABOVE):
        members = [newest_first[index] for index in group]
        sessions = {(one.project, one.session_id) for one in members if one.session_id}
        latest = next((one for one in members if one.is_latest), None)
        if len(sessions) > 1 and latest is not None:
            found.append((len(sessions), _procedure(latest, members)))
    return [procedure for _, procedure in sorted(found, key=lambda one: -one[0])]


def _facts_in(text: str) -> list[str]:
    return [said for said in claims_in(text) if _is_for_anybody(said)]


def _claims(observation: Observation) -> list[str]:
    return [said for said in _facts_in(account(observation)) if len(said) <= _LINE_CHARS]


def _is_for_anybody(said: str) -> bool:
    """Not told to somebody: what holds for whom one talks to is nothing about the project."""
    return _ADDRESSED.search(said) is None


def _top(members: Iterable[tuple[int, int]], count: int) -> list[int]:
    """The places of the most important, the newest of equals; in time order."""
    return sorted(place for _, place in nlargest(count, members))


def _topic(concept: str, members: Sequence[Observation], said: Sequence[Sequence[str]]) -> Topic:
    """The memory about a concept: its title, then the most central sentence of each member, said once."""
    title = shortened(f"About {written(concept, chain(*said))}", TITLE_CHARS)
    leads = [lead for _, lead in leading(said)]
    lines = [f"- {leads[group[0]]}" for group in claim_groups(leads, SAME_CLAIM)]
    content = "\n".join(fitting([title, *lines], CONTENT_CHARS, "\n"))
    sources: list[str] = [one.id for one, lead in zip(members, leads, strict=True) if says(content, lead)]
    return Topic(concept, title, content, sources)


def _procedure(latest: Memory, members: Iterable[Memory]) -> Procedure:
    """The latest version's list items as steps, else its sentences; its title is no step unless it is all there is."""
    name = shortened(latest.title or latest.content, TITLE_CHARS)
    listed = [shortened(found["step"], _LINE_CHARS) for found in _STEP.finditer(latest.content)]
    said = listed if len(listed) > 1 else statements(latest.content)
    steps = [step for step in said if step != name] or [shortened(latest.content, _LINE_CHARS)]
    return Procedure(name, steps[:STEPS], [one.id for one in members])
