"""Consolidation: what many observations, sessions or memories have in common, by agentmemory's rules.

Guarantee: pure and extractive: of sentences that somebody said, each with the sources that say it. The same members
give the same text, so that consolidating again changes nothing; the title depends on the concept alone, so that new
members give a new version of the same memory.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ingest.log.position import Position
from projections.condensing.accounts import account, in_time
from projections.condensing.claims import (
    claim_groups,
    is_claim,
    is_plan,
    is_sentence,
    is_topic,
    mentions,
    names_of,
    says,
)
from projections.condensing.sentences import (
    ALIKE,
    alike_groups,
    best,
    fitting,
    leading,
    shortened,
    statements,
    term_set,
)
from projections.condensing.sessions import Digest
from projections.documents.memories import TITLE_CHARS, Memory
from projections.documents.observations import Observation
from projections.search.similarity import SIMILAR_ABOVE

MIN_IMPORTANCE = 5
CONTENT_CHARS = 1200
FACTS = 10
FEWEST_SESSIONS = 5
"""With fewer summaries, what recurs is still chance."""
NEWEST_SESSIONS = 20
RECURS_FROM = 0.5
"""Jaccard similarity from which two sessions state the same; less than `ALIKE`, for nobody copied the other."""
STEPS = 10
PATTERN = "pattern"
"""The tag of a memory that agentmemory's clients saved with this type."""

_LINE_CHARS = 240
_FEWEST_TERMS = 3
"""A statement of fewer is in every session ("All tests pass.") and tells nothing."""
_ADDRESSED = re.compile(r"\b(?:you|your|yours|please)\b|\A\W*(?:yes|no|sure|thanks?),", re.IGNORECASE)
_STEP = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+(?P<step>.*\S)", re.MULTILINE)


class Group(Struct, frozen=True):
    """Observations about one concept, in time order."""

    concept: str
    members: list[Observation]


class Topic(Struct, frozen=True):
    """The memory that stands for a group; `sources` are the members whose words it has."""

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


def groups(
    observations: Iterable[Observation],
    min_importance: int = MIN_IMPORTANCE,
    min_members: int = 3,
    max_groups: int = 10,
    top: int = 8,
) -> list[Group]:
    """Returns the largest groups of important observations that say something of a concept, ties by concept.

    An observation says something of a concept in a sentence with it. Names of tools and keys, paths and tags of the
    server are no concepts. Of each group only the `top` most important members, the newest of equals. An observation
    may be in several groups.
    """
    seen = sorted((one for one in observations if one.importance >= min_importance), key=in_time)
    names = names_of(seen)
    by_concept: defaultdict[str, list[Observation]] = defaultdict(list)
    for observation in seen:
        said = _sentences(observation)
        for concept in {concept.strip().lower() for concept in observation.concepts}:
            if is_topic(concept, names) and any(mentions(one, concept) for one in said):
                by_concept[concept].append(observation)
    large = [(concept, members) for concept, members in by_concept.items() if len(members) >= min_members]
    large.sort(key=lambda one: (-len(one[1]), one[0]))
    return [Group(concept, _top(members, top)) for concept, members in large[:max_groups]]


def memory_of(group: Group) -> Topic:
    """Returns the memory that stands for a group; its content begins with its title.

    Each member gives its most central sentence about the concept, in time order, said once.
    """
    title = shortened(f"About {group.concept}", TITLE_CHARS)
    said = [[one for one in _sentences(member) if mentions(one, group.concept)] for member in group.members]
    leads = [shortened(lead, _LINE_CHARS) for _, lead in leading(said)]
    different = [f"- {leads[group[0]]}" for group in claim_groups(leads, ALIKE)]
    content = "\n".join(fitting([title, *different], CONTENT_CHARS, "\n"))
    return Topic(
        title, content, [one.id for one, lead in zip(group.members, leads, strict=True) if says(content, lead)]
    )


def facts(summaries: Sequence[Digest]) -> list[Fact]:
    """Returns what holds across sessions: what at least two digests state, and what was decided; the surest first.

    `summaries` are in time order; the newest 20 count, fewer than five give nothing. A fact is in its newest wording.
    """
    if len(summaries) < FEWEST_SESSIONS:
        return []
    said: list[tuple[int, bool, str]] = []
    for place in range(len(summaries) - 1, max(-1, len(summaries) - 1 - NEWEST_SESSIONS), -1):
        one = summaries[place]
        said += [(place, True, decision) for decision in one.decisions if _is_fact(decision)]
        said += [(place, False, stated) for stated in statements(one.narrative) if _is_fact(stated)]
    sets = [term_set(text) for *_, text in said]
    ranked: list[Fact] = []
    for group in claim_groups([text for *_, text in said], RECURS_FROM):
        sessions = sorted({said[index][0] for index in group})
        decided = any(said[index][1] for index in group)
        if len(sets[group[0]]) >= _FEWEST_TERMS and (len(sessions) > 1 or decided):
            ranked.append(Fact(said[group[0]][2], sessions))
    return sorted(ranked, key=lambda fact: -len(fact.sources))[:FACTS]


def procedures(memories: Iterable[Memory]) -> list[Procedure]:
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


def _sentences(observation: Observation) -> list[str]:
    return [said for said in statements(account(observation)) if is_sentence(said) and not is_plan(said)]


def _is_fact(said: str) -> bool:
    """A claim that is not told to somebody: what holds for whom one talks to is no fact of the project."""
    return is_claim(said) and _ADDRESSED.search(said) is None


def _top(members: Sequence[Observation], count: int) -> list[Observation]:
    """The most important, the newest of equals; in time order."""
    newest_first = members[::-1]
    chosen = best([one.importance for one in newest_first], count)
    return [newest_first[index] for index in reversed(chosen)]


def _procedure(latest: Memory, members: Iterable[Memory]) -> Procedure:
    """The latest version's list items as steps, else its sentences; its title is no step unless it is all there is."""
    name = shortened(latest.title or latest.content, TITLE_CHARS)
    listed = [shortened(found["step"], _LINE_CHARS) for found in _STEP.finditer(latest.content)]
    said = listed if len(listed) > 1 else statements(latest.content)
    steps = [step for step in said if step != name] or [shortened(latest.content, _LINE_CHARS)]
    return Procedure(name, steps[:STEPS], [one.id for one in members])
