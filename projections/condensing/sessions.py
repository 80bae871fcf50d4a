"""What a session was about: an extractive digest of its observations.

Guarantee: a pure function of the observations, whatever order they come in; every sentence is one of theirs.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from projections.condensing.accounts import MODIFYING, account, in_time, prose, user_prompt
from projections.condensing.sentences import best, closed, distinct, fitting, leading, shortened, statements, term_set
from projections.documents.observations import Observation

TITLE_CHARS = 80
NARRATIVE_CHARS = 1500
NARRATIVE_OBSERVATIONS = 6
DECISIONS = 8
FILES = 20
CONCEPTS = 12

_LEAD_CHARS = 240
"""Six of them fit a narrative."""
_CENTRAL_WORTH = 2.0
"""Importance points of the most central observation: less than an error is above an edit or a turn of talk, more than
the one point that a single weighty word gives."""
_DECIDED = re.compile(
    r"\b(?:decided|decision|chose|chosen|agreed|settled on|opted|will use|we['’]ll use|going with|go with|went with"
    r"|switch(?:ed|ing)? to|instead of)\b",
    re.IGNORECASE,
)
_BINDING = re.compile(
    r"\b(?:must(?! have| be\b)|never(?! (?:been|felt|forget|had|heard|knew|seen|thought))|prefers?|from now on"
    r"|(?<!not )(?<!n['’]t )always)\b",
    re.IGNORECASE,
)
"""Also said of much that nobody decided (not always, must have felt, never forget), so these come after the ones that
say so."""


class Digest(Struct, frozen=True):
    """A session in short. Decisions are in the order they were made, files with the modified ones first."""

    title: str
    narrative: str
    decisions: list[str]
    files: list[str]
    concepts: list[str]
    observation_count: int


class _WeighedLead(Struct, frozen=True):
    """An observation, its most telling sentence, how much it matters here, and whether it tells anything at all."""

    observation: Observation
    lead: str
    weight: float
    tells: bool


def digest(observations: Sequence[Observation], title: str = "") -> Digest | None:
    """Returns the digest of a session; None for no observations.

    The title is the one given, else the first user prompt, else the lead of the observation that matters most.
    """
    if not observations:
        return None
    ordered = sorted(observations, key=in_time)
    told = _told(ordered)
    return Digest(
        title=_title(title, told),
        narrative=_narrative(told),
        decisions=_decisions(ordered),
        files=modified_first(ordered)[:FILES],
        concepts=frequent_concepts(ordered)[:CONCEPTS],
        observation_count=len(ordered),
    )


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


def _told(ordered: Sequence[Observation]) -> list[_WeighedLead]:
    names = term_set(" ".join({one.agent_id for one in ordered}))
    accounts = [_unsigned(account(one), one.agent_id) for one in ordered]
    said = [statements(text) for text in accounts]
    leads = leading([one or [shortened(text, _LEAD_CHARS)] for one, text in zip(said, accounts, strict=True)], names)
    highest = max(score for score, _ in leads) or 1.0
    return [
        _WeighedLead(one, lead, one.importance + _CENTRAL_WORTH * score / highest, bool(stated or user_prompt(one)))
        for one, (score, lead), stated in zip(ordered, leads, said, strict=True)
    ]


def _unsigned(text: str, speaker: str) -> str:
    """The text without the speaker's name in front of it, as transcripts write it."""
    return text.removeprefix(f"{speaker}:").lstrip() if speaker else text


def _title(given: str, told: Sequence[_WeighedLead]) -> str:
    prompts = (prompt for one in told if (prompt := user_prompt(one.observation)))
    chosen = given.strip() or next(prompts, "") or max(told, key=lambda one: one.weight).lead
    return shortened(chosen, TITLE_CHARS)


def _narrative(told: Sequence[_WeighedLead]) -> str:
    """The leads of the observations that matter most, in time order; each is said once, and by whom if by several.

    Greetings and questions are only told when there is nothing else; a user's prompt is always something.
    """
    telling = [one for one in told if one.tells] or told
    different = [telling[index] for index in distinct([term_set(one.lead) for one in telling])]
    chosen = [different[index] for index in best([one.weight for one in different], NARRATIVE_OBSERVATIONS)]
    several = len({one.observation.agent_id for one in told}) > 1
    lines = [_line(one, several) for one in chosen if one.lead]
    return " ".join(fitting(lines, NARRATIVE_CHARS, " "))


def _line(told: _WeighedLead, name_speaker: bool) -> str:
    lead, speaker = closed(shortened(told.lead, _LEAD_CHARS)), told.observation.agent_id
    return f"{speaker}: {lead}" if name_speaker and speaker else lead


def _decisions(ordered: Sequence[Observation]) -> list[str]:
    found = list(_decided(ordered))
    different = [found[index] for index in distinct([term_set(text) for _, text in found])]
    return [different[index][1] for index in best([strength for strength, _ in different], DECISIONS)]


def _decided(ordered: Iterable[Observation]) -> Iterator[tuple[int, str]]:
    """Each deciding sentence in time order, with how plainly it decides: 2 says so, 1 binds."""
    for observation in ordered:
        for place, said in enumerate(statements(_unsigned(prose(observation), observation.agent_id))):
            if _DECIDED.search(said) or (observation.kind == "decision" and place == 0):
                yield 2, said
            elif _BINDING.search(said):
                yield 1, said


def continued(earlier: Digest, later: Digest, observation_count: int) -> Digest:
    """Returns the digest of both: the earlier title, then what was told before, then what came after.

    Each tells at most half of a full narrative where both do not fit, so that a session that is taken up again and
    again still says how it began; of lists the newest stay.
    """
    return Digest(
        title=earlier.title or later.title,
        narrative=_both(earlier.narrative, later.narrative),
        decisions=_newest((*earlier.decisions, *later.decisions), DECISIONS),
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
