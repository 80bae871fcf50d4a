"""What a session was about: an extractive digest of its observations.

Guarantee: a pure function of the observations, whatever order they come in; every sentence is one of theirs.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ingest.secrets.scrub import is_only_marks
from projections.compression.accounts import MODIFYING, account, in_time
from projections.compression.sentences import best, closed, pieces, shortened
from projections.condensing.salience import Sentence, chosen, sentences_of
from projections.documents.observations import Observation

TITLE_CHARS = 160
SUMMARY_CHARS = 672
"""Of all sentences together, some 170 tokens: what an agent is told of a session that it did not see."""
NARRATIVE_CHARS = 1500
"""Of a session that was taken up again and again, and of a model's."""
DECISIONS = 8
REMAINING = 5
FILES = 20
CONCEPTS = 12


_BINDING = re.compile(
    r"\b(?:must(?! have| be\b)|never(?! (?:been|felt|forget|had|heard|knew|seen|thought))|prefers?"
    r"|(?<!not )(?<!n['’]t )always)\b",
    re.IGNORECASE,
)
"""Not what is said of much that nobody decided (not always, must have felt, never forget)."""
_REASONED = re.compile(
    r"\b(?:because|due to|so that|polic(?:y|ies)|therefore|which means|root cause|only if|rather than)\b", re.IGNORECASE
)


class Digest(Struct, frozen=True):
    """A session in short; no sentence is in it twice. `decisions` are in the order they were made, with their reasons
    where those were given; `remaining` is what was left to do; files have the modified ones first.
    """

    title: str
    narrative: str
    decisions: list[str]
    files: list[str]
    concepts: list[str]
    observation_count: int
    remaining: list[str] = []


_BETWEEN = " \n\t.,;:!?\u2013\u2014"
"""What may stand between a title and the rest of what was said."""


def digest(observations: Sequence[Observation], title: str = "") -> Digest | None:
    """Returns the digest of a session; None for no observations.

    The title is the one given, else what the user wanted, else the sentence that matters most.
    """
    if not observations:
        return None
    ordered = sorted(observations, key=in_time)
    sentences = tellable(sentences_of(ordered))
    given = "" if is_only_marks(title) else shortened(title, TITLE_CHARS)
    told = chosen(sentences, SUMMARY_CHARS - len(given))
    first = shortened(account(ordered[0]), TITLE_CHARS)
    headline = given or _headline(_goal(told, len(ordered))) or ("" if is_only_marks(first) else first) or "session"
    told = [*_without(told, headline)] or told
    remaining = [one for one in told if _is_left(one, len(ordered))][-REMAINING:]
    decisions = _decisions([one for one in told if one not in remaining], ordered)
    rest = [one for one in told if one not in remaining and one not in decisions]
    return Digest(
        title=headline,
        narrative=_narrative(rest or told, ordered),
        decisions=[one.text for one in decisions],
        remaining=[one.text for one in remaining],
        files=modified_first(ordered)[:FILES],
        concepts=frequent_concepts(ordered)[:CONCEPTS],
        observation_count=len(ordered),
    )


def tellable(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Returns the sentences that a summary may tell, unless there are no others: not calls that only looked, nor edits
    of which the agent says later what came of them."""
    return [one for one in sentences if not _is_idle_call(one)] or list(sentences)


def modified_first(observations: Iterable[Observation]) -> list[str]:
    """Returns the distinct files of the observations: those that were written or edited, then the others.

    What was searched for is left out: a pattern, or a folder to look in, stands among a search's files.
    """
    seen = [one for one in observations if one.kind != "search"]
    modified = [file for one in seen if one.kind in MODIFYING for file in one.files]
    return list(dict.fromkeys(modified + [file for one in seen for file in one.files]))


def frequent_concepts(observations: Iterable[Observation]) -> list[str]:
    """Returns the lower-cased concepts, the one of most observations first; of equally frequent ones the earlier."""
    counted = Counter(concept for one in observations for concept in dict.fromkeys(map(str.lower, one.concepts)))
    return [concept for concept, _ in counted.most_common()]


def _goal(told: Sequence[Sentence], observations: int) -> list[str]:
    """Of what is told what the user wanted, the sooner the likelier, with what they said in the same breath; else what
    matters most. The sentence that counts is the first."""
    asked = [one for one in told if one.part == "user"]
    if asked:
        goal = max(asked, key=lambda one: one.worth * (1 - one.place / observations))
        return [goal.text, " ".join(one.text for one in asked if one.place == goal.place)]
    return [one.text for one in sorted(told, key=lambda one: -one.worth)[:1]]


def _headline(goal: Sequence[str]) -> str:
    """The longest of it that fits, or its first sentence, or what fits of that."""
    fitting = [text for text in goal if len(text) <= TITLE_CHARS]
    return max(fitting, key=len) if fitting else shortened(pieces(goal[0])[0], TITLE_CHARS) if goal else ""


def _without(told: Iterable[Sentence], headline: str) -> Iterator[Sentence]:
    """What is told besides the title, which is what a user said; what an agent said stays where it was said."""
    for one in told:
        rest = one.text.removeprefix(headline)
        if one.part == "user" and rest != one.text and not rest[:1].isalnum():
            if rest := rest.lstrip(_BETWEEN):
                yield one._replace(text=rest)
        elif one.part != "user" or one.text not in headline:
            yield one


def _is_idle_call(one: Sentence) -> bool:
    """Whether it is a call that tells nothing of how things stand: it only looked, or the agent sums up later."""
    looked = one.part == "call" and not one.features["changes something"]
    return (looked or bool(one.features.get("summed up later"))) and not {"done", "failed"} & one.features.keys()


def _decisions(told: Sequence[Sentence], ordered: Sequence[Observation]) -> list[Sentence]:
    """What an agent decided, or why it did what it did; the plainest of many, in time order."""
    plain = [_plainness(one, ordered[one.place]) for one in told]
    kept = best(plain, DECISIONS)
    return [told[place] for place in kept if plain[place]]


def _plainness(one: Sentence, said_in: Observation) -> int:
    """2 says that it decides, or is what a decision was recorded as; 1 binds or gives a reason; 0 does neither."""
    if one.part != "assistant" or "offered" in one.features:
        return 0
    if "decided" in one.features or said_in.kind == "decision":
        return 2
    return int(_BINDING.search(one.text) is not None or _REASONED.search(one.text) is not None)


def _is_left(one: Sentence, observations: int) -> bool:
    """Whether it says what is left to do, in the last third of a session."""
    return "left" in one.features and one.part != "result" and 3 * (one.place + 1) > 2 * observations


def _narrative(told: Sequence[Sentence], ordered: Sequence[Observation]) -> str:
    """The sentences, in time order; who says one is named where somebody else said the one before it."""
    agents = {one.agent_id for one in ordered}
    lines: list[str] = []
    before = ""
    for one in told:
        speaker = "User" if one.part == "user" else ordered[one.place].agent_id if len(agents) > 1 else ""
        lines.append(f"{speaker}: {closed(one.text)}" if speaker and speaker != before else closed(one.text))
        before = speaker
    return " ".join(lines)


def continued(earlier: Digest, later: Digest, observation_count: int) -> Digest:
    """Returns the digest of both: the earlier title, then what was told before, then what came after.

    Each tells at most half of a full narrative where both do not fit, so that a session that is taken up again and
    again still says how it began; of lists the newest stay.
    """
    return Digest(
        title=earlier.title or later.title,
        narrative=_both(earlier.narrative, later.narrative),
        decisions=_newest((*earlier.decisions, *later.decisions), DECISIONS),
        remaining=later.remaining,
        files=_newest((*earlier.files, *later.files), FILES),
        concepts=_newest((*earlier.concepts, *later.concepts), CONCEPTS),
        observation_count=observation_count,
    )


def _both(before: str, after: str) -> str:
    if len(before) + len(after) + 1 <= NARRATIVE_CHARS:
        return " ".join(part for part in (before, after) if part)
    half = NARRATIVE_CHARS // 2 - 1
    kept = max(half, NARRATIVE_CHARS - 1 - len(after))
    return f"{shortened(before, kept)} {shortened(after, max(half, NARRATIVE_CHARS - 1 - len(before)))}"


def _newest(found: Iterable[str], most: int) -> list[str]:
    return list(dict.fromkeys(found))[-most:]
