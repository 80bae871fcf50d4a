"""Insights: what several documents about one concept amount to.

Guarantee: extractive, and the order of the items only decides between equals. Every insight names the items that say
so, in these words or nearly these; an insight that recurs was stated at two independent origins or more.
"""

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from ingest.commands.decide import Caller, RecordLesson, SetSlot
from ingest.events.envelope import Trust
from ingest.log.position import project_route
from ingest.platform.clock import Clock, from_ms
from projections.condensing import slots as slot_rules
from projections.condensing.consolidation import (
    PROJECT_OBSERVATIONS,
    named_by,
    replaced_claims,
    stories,
    tellings,
    told_by_agents,
)
from projections.condensing.summaries import (
    PROJECT_MEMORIES,
    fingerprint,
    is_made,
    newest,
    observations_of,
    readable,
    rejected,
)
from projections.nouns.access import Reader
from projections.nouns.lesson import REFLECTION, SUGGESTION, Lesson, lessons, strengthened
from projections.nouns.memory import Memory, memories
from projections.nouns.observation import Observation, timeline
from projections.nouns.session import Session
from projections.nouns.slot import Slot, default_slots, slot_id
from projections.nouns.trust import is_condensed, is_stated, lowest
from projections.operations.current import Current, Writing
from projections.queries.profile import changes_files, failures, run_of, shell_line, topics_of
from projections.text.accounts import in_time, prose, user_words
from projections.text.claims import SAME_CLAIM, Claim, claim_groups, claims_in, is_claim, is_figure, stands_alone
from projections.text.compression import told_by
from projections.text.sentences import SCAN_CHARS, closed, pieces, stated, term_set

MIN_ITEMS = 3
MIN_ORIGINS = 2
PER_CLUSTER = 5
INSIGHTS = 50

_CONCEPTS = 5
"""Of an insight, its cluster's included; more than these connects everything with everything."""


class Item(Struct, frozen=True):
    """A document to reflect on: a memory, a lesson, an observation.

    `origin` is where it was said, a session for instance; items of one origin do not confirm each other. An empty one
    is the item itself.
    """

    id: str
    concepts: list[str]
    text: str
    confidence: float
    origin: str = ""


class Insight(Struct, frozen=True):
    """A conclusion. The first concept is that of its cluster; `sources` are ids of items."""

    content: str
    confidence: float
    concepts: list[str]
    sources: list[str]


def insights(items: Iterable[Item], max_clusters: int = 10, without: Collection[str] = ()) -> list[Insight]:
    """Returns the insights of the largest concept clusters, at most 5 each and 50 in all; none is nearly another.

    A cluster gives what items of several origins state alike, the most often stated first; each origin raises its
    confidence. Items without concepts give what several of them tell alike. No claim in `without` counts, nor one that
    is a figure of one run.
    """
    items, candidates = list(items), list[Insight]()

    def counts(claim: str) -> bool:
        return claim not in without and not is_figure(claim)

    for concept, members in clusters(items)[:max_clusters]:
        stating = [(item, claim) for item in members for claim in filter(counts, claims_in(item.text))]
        candidates += _recurring(concept, stating)[:PER_CLUSTER]
    others = (item for item in items if not item.concepts)
    candidates += _told_alike([(item, claim) for item in others for claim in filter(counts, tellings(item.text))])
    different = claim_groups([insight.content for insight in candidates], SAME_CLAIM)
    return [candidates[group[0]] for group in different][:INSIGHTS]


def clusters(items: Iterable[Item]) -> list[tuple[str, list[Item]]]:
    """Returns the topics that at least three items have, with them; largest first, ties by topic."""
    by_concept: defaultdict[str, list[Item]] = defaultdict(list)
    for item in items:
        for concept in topics_of(item.concepts):
            by_concept[concept].append(item)
    large = [(concept, members) for concept, members in by_concept.items() if len(members) >= MIN_ITEMS]
    return sorted(large, key=lambda cluster: (-len(cluster[1]), cluster[0]))


def _origin(item: Item) -> str:
    return item.origin or item.id


def _recurring(concept: str, stating: Sequence[tuple[Item, str]]) -> list[Insight]:
    """What items of at least two origins state alike, in the first wording."""
    ranked: list[tuple[int, Insight]] = []
    for group in claim_groups([text for _, text in stating], SAME_CLAIM):
        sources = list({stating[index][0].id: stating[index][0] for index in group}.values())
        origins = len({_origin(item) for item in sources})
        if origins >= MIN_ORIGINS:
            ranked.append((origins, _agreed(stating[group[0]][1], sources, origins, _concepts(concept, sources))))
    ranked.sort(key=lambda item: (-item[0], -item[1].confidence))
    return [insight for _, insight in ranked]


def _agreed(statement: str, sources: Sequence[Item], origins: int, concepts: list[str]) -> Insight:
    """What several origins state: each but the first reinforces it, as repeating a lesson does."""
    confidence = max(item.confidence for item in sources)
    for _ in range(origins - 1):
        confidence = strengthened(confidence)
    return Insight(closed(statement), round(confidence, 3), concepts, [item.id for item in sources])


def _told_alike(claims: Sequence[tuple[Item, str]]) -> Iterator[Insight]:
    """What items of several origins tell in words of their own, in those that most of them share."""
    for group in stories([(_origin(item), claim) for item, claim in claims])[:PER_CLUSTER]:
        alike = [claims[index] for index in group]
        sources = list({item.id: item for item, _ in alike}.values())
        name = named_by([claim for _, claim in alike])
        yield _agreed(alike[0][1], sources, len(set(map(_origin, sources))), [name])


def _concepts(concept: str, sources: Iterable[Item]) -> list[str]:
    """The cluster's concept, then those that most sources share with it."""
    counted = Counter(other for item in sources for other in sorted(topics_of(item.concepts) - {concept}))
    return [concept, *(other for other, _ in counted.most_common(_CONCEPTS - 1))]


MEMORY_CONFIDENCE = 0.5
"""Of the text of a memory: that of an unconfirmed lesson."""


class Reflected(Struct, frozen=True, kw_only=True):
    """What reflecting on a project gave: new insights, and those that were confirmed."""

    insights: int
    reinforced: int
    items: int
    position: str


async def reflect(
    current: Current, clock: Clock, reader: Reader, project: str, caller: Caller, max_clusters: int = 10
) -> Reflected:
    """Insights from what a project's memories, lessons and sessions have in common, and what failed in one session and
    was fixed in another, stored as lessons."""
    await current.settle()
    documents, tenant = current.documents, reader.tenant
    stored = await newest(documents, memories(tenant, project), Memory, PROJECT_MEMORIES, reader)
    learned = await newest(documents, lessons(tenant, project), Lesson, PROJECT_MEMORIES, reader)
    hidden = await rejected(documents, lessons(tenant, project), Lesson, PROJECT_MEMORIES, reader)
    live, now = [lesson for lesson in learned if not lesson.retired_ms and is_stated(lesson)], clock()
    lasting = [memory for memory in stored if memory.is_latest and not memory.has_ended(now)]
    public = [memory for memory in lasting if memory.visibility == "public" and is_stated(memory)]
    written = [memory for memory in public if not is_made(memory)]
    items = [
        Item(memory.id, [*memory.concepts, *memory.tags], memory.content, MEMORY_CONFIDENCE, memory.session_id)
        for memory in written
    ]
    items += [
        Item(lesson.id, lesson.tag_list, lesson.content, lesson.confidence_at(now), lesson.derived_from)
        for lesson in live
        if lesson.origin not in (REFLECTION, SUGGESTION)
    ]
    observed = await newest(documents, timeline(tenant, project), Observation, PROJECT_OBSERVATIONS, reader)
    observed.sort(key=in_time)
    origins: dict[str, tuple[datetime, Trust]]
    origins = {str(document.id): (document.occurred_at, document.trust) for document in (*public, *observed)}
    origins |= {lesson.id: (from_ms(lesson.occurred_ms), lesson.trust) for lesson in live}

    def concluded() -> list[tuple[Insight, Lesson | None]]:
        heard = ((observed[index], claim) for index, claim in told_by_agents(observed))
        of_sessions = [Item(item.id, [], claim, MEMORY_CONFIDENCE, item.session) for item, claim in heard]
        without = replaced_claims([*observed, *written])
        made = insights([*items, *of_sessions], max_clusters, without)
        hidden_claims = [Claim.of(lesson.content) for lesson in hidden]
        new = [one for one in made if not any(map(Claim.of(one.content).repeats, hidden_claims))]
        return _with_existing(new, live, public)

    conclusions = await asyncio.to_thread(concluded)
    writing, new = Writing(current, caller), 0
    for insight, lesson in conclusions:
        content = insight.content if lesson is None else lesson.content
        command = RecordLesson(
            event_id=f"insight:{fingerprint(content, *sorted(insight.sources))}",
            project=project,
            content=content,
            confidence=insight.confidence,
            tags=insight.concepts,
            origin=REFLECTION,
            derived_from=insight.sources,
            trust=lowest(origins[name][1] for name in insight.sources),
            occurred_at=max(origins[name][0] for name in insight.sources),
        )
        await writing.give(command)
        new += lesson is None
    await suggest(current, reader, project, observed, writing)
    return Reflected(insights=new, reinforced=len(conclusions) - new, items=len(items), position=writing.position)


def _with_existing(
    conclusions: Sequence[Insight], live: Sequence[Lesson], public: Sequence[Memory]
) -> list[tuple[Insight, Lesson | None]]:
    """Returns the insights, each with the lesson that claims the same; a new one only if no fact, no crystal and no
    single memory states it: an insight is what memories agree on, not what one of them says.
    """
    stated = [
        (Claim.of(memory.content), is_made(memory)) for memory in public if not (is_made(memory) and memory.concepts)
    ]
    lesson_claims = [(Claim.of(lesson.content), lesson) for lesson in live]
    selected: list[tuple[Insight, Lesson | None]] = []
    for insight in conclusions:
        claim = Claim.of(insight.content)
        existing = next((lesson for other, lesson in lesson_claims if claim.is_said_by(other, SAME_CLAIM)), None)
        saying = [by_server for other, by_server in stated if claim.repeats(other)]
        if existing is not None or (len(saying) != 1 and not any(saying)):
            selected.append((insight, existing))
    return selected


SUGGESTED_CONFIDENCE = 0.3  # it fades in four weeks unless somebody confirms it
SUGGESTED = 2
"""At most, of a session."""
_CAUSE = re.compile(r"\b(?:because|due to|root cause|caused by|came from|the reason (?:is|was))\b", re.IGNORECASE)
_LIKELY_CAUSE = re.compile(
    r"[,;:(–—] ?(?:since|as) (?!of\b|soon|long|well|before|if\b|you\b)|, so (?!far|on\b|much|many|long|i\b|let)"
    r"|\A(?:since|as) (?!of\b|soon|long|well|before|the start|if\b)[^,]{8,},",
    re.IGNORECASE,
)
"""Words that also mean something else: then the sentence has to share more with what failed."""
_TROUBLE = re.compile(
    r"\b(?:fail(?:s|ed|ing|ure)?|errors?|crash\w*|brok\w+|breaks?|died|dies|kill(?:ed|s)|hang(?:s|ing)|wrong"
    r"|time[sd]? ?outs?|exceptions?|deadlock\w*|leak\w*|flak[ey]\w*|duplicates?|reset|refused|lost|bugs?)\b",
    re.IGNORECASE,
)
_FIX = re.compile(
    r"\b(?:now|fix(?:ed|es)|instead(?! of \d)|no longer|pinned|resolved|replaced|switched|raised|lowered|changed|moved"
    r"|removed|uses|added(?! (?:\S+ ){0,3}tests?\b))\b",
    re.IGNORECASE,
)
_OUTCOME = re.compile(r"(?i)[^,;:]*\b(?:pass(?:es|ed|ing)?|green|succeed\w*|works?)\b[^,;:]*")
"""A clause that says that all is well now, and not why."""
_EFFECT = re.compile(
    r"(?i).*, so (?P<so>.*)|\A(?:since|as|because) [^,]*, (?P<then>.*)"
    r"|(?P<first>.*?)(?:, (?:since|as) | (?:because|due to|caused by) )"
)
"""A sentence that names a cause, up to the cause or after it."""
_POINTING = re.compile(r"(?i)\b(?:it|they|them|this|these|those)\b(?!['’-])")
"""Words for something that was named before."""
_THE_SAME = re.compile(r"(?i)\bthe (?:same|latter|former)(?=\W*\Z|[.,;:)]| (?:as|for|in|of|on|to|way|thing)\b)")
_CLAUSE_GAP = re.compile(
    r"(?i)[,;:.)–—](?: |\Z)|[(]|\b(?:and|but|or|because|since|so|which|that|when|while|if|until|as|then)\b"
)
"""Where a clause ends, or the next one begins."""
_UNSURE = re.compile(
    r"\A(?:left|open|still open|todo|next|careful|not (?:yet|changed|done))\b"
    r"|\b(?:likely|suspect|doubt|maybe|perhaps|probably|may be|might)\b",
    re.IGNORECASE,
)
Trouble: TypeAlias = tuple[int, int, frozenset[str]]
"""Where something failed, where it passed later, and the terms of what is known of it."""


def suggestions(observations: Sequence[Observation]) -> list[Insight]:
    """Returns what failed, why, and what fixed it, in the words of agents, each with the observations that show it.

    An agent names a cause after something failed that passed later. At most two of a session, the surest first. The
    observations are in time order.
    """
    of_session: defaultdict[str, list[Trouble]] = defaultdict(list)
    for trouble in _troubles(observations):
        for session in {observations[end].session for end in trouble[:2]}:
            of_session[session].append(trouble)
    ranked: defaultdict[str, list[tuple[int, Insight]]] = defaultdict(list)
    for index, item in enumerate(observations):
        near = [trouble for trouble in of_session.get(item.session, ()) if index > trouble[0]]
        for cause in filter(_is_cause, _by_agent(item) if near else ()):
            words, is_plain = term_set(cause), _CAUSE.search(cause) is not None
            trouble = max(near, key=lambda trouble: len(words & trouble[2]))
            shared = len(words & trouble[2])
            is_about = shared > 1 or (shared and (is_plain or _TROUBLE.search(cause)))
            if is_about and (lesson := _suggested(observations, trouble, index, cause)):
                ranked[item.session].append((shared + 2 * is_plain, lesson))
    return [made for of in ranked.values() for _, made in sorted(of, key=lambda item: -item[0])[:SUGGESTED]]


def _suggested(observations: Sequence[Observation], trouble: Trouble, index: int, cause: str) -> Insight | None:
    """Returns a cause with what an agent says of the fix, and the evidence for both; None without a fix."""
    failed, passed, _ = trouble
    fixing = observations[passed].session
    closing, fix = index, ""
    if not _has_fix(cause):
        after = [n for n in range(max(index, passed), len(observations)) if observations[n].session == fixing]
        closing = next((n for n in after if _by_agent(observations[n])), index)
        fix = _fix_after(cause, _by_agent(observations[closing]))
        if not fix or not (_CAUSE.search(cause) or _TROUBLE.search(cause)):
            return None
    span = (n for n in range(failed, passed + 1) if observations[n].session == fixing)
    edits = [n for n in span if changes_files(observations[n])]
    evidence = dict.fromkeys([failed, *edits[-1:], passed, index, closing])
    content = " ".join(closed(text) for text in (cause, fix) if text)
    return Insight(content, SUGGESTED_CONFIDENCE, [], [observations[n].id for n in evidence])


def _has_fix(cause: str) -> bool:
    """Returns whether a cause also says what was changed, or has to be done, in the rest of its sentence or after."""
    sentence, *more = pieces(cause)
    effect = match[match.lastgroup or 0] if (match := _EFFECT.match(sentence)) else ""
    is_done = not _TROUBLE.search(effect) and (_is_fix(effect) or " must " in effect)
    return is_done or any(map(_is_fix, more))


def _fix_after(cause: str, spoken: Sequence[str]) -> str:
    """Returns the first sentence that says what was changed, and can be read alone or after the cause; else ""."""
    for before, text in pairwise(["", *spoken]):
        read = (f"{cause} {text}" if before == cause else text).replace("I ", "we ")
        is_sure = text != cause and not _UNSURE.search(text) and not _is_cause(text)
        if is_sure and _is_fix(text) and _is_whole(read):
            return text
    return ""


def _troubles(observations: Sequence[Observation]) -> Iterator[Trouble]:
    """Failed runs that passed later, and failures that a user reports, if their session then changed and ran
    something."""
    for failure, passed in failures(observations):
        if passed is not None:
            data = observations[failure.index].data
            output = told_by(data.get("tool_output") or data.get("error"))[-SCAN_CHARS:]
            yield failure.index, passed.index, term_set(" ".join([*failure.commands, failure.reason, output]))
    edits = [n for n, item in enumerate(observations) if changes_files(item)]
    for index, item in enumerate(observations):
        if (prompt := user_words(item)) and _TROUBLE.search(prompt):
            edited = next((edit for edit in edits if edit > index), len(observations))
            commands = (n for n in range(edited, len(observations)) if shell_line(observations[n]))
            runs = filter(None, (run_of(n, observations[n]) for n in commands))
            passed = next((run.index for run in runs if not run.reason), index)
            if passed > index and observations[passed].session == item.session:
                yield index, passed, term_set(prompt[:SCAN_CHARS])


def _by_agent(observation: Observation) -> list[str]:
    """The sentences of an agent's own words."""
    is_agent = observation.turn == "agent" and not observation.data.get("tool_name")
    return stated(prose(observation)) if is_agent and is_stated(observation) else []


def _is_cause(text: str) -> bool:
    """Returns whether a sentence says for sure why something is so, and can be read alone."""
    says_why = _CAUSE.search(text) or _LIKELY_CAUSE.search(text)
    return bool(says_why) and _is_whole(text) and not _UNSURE.search(text)


def _is_fix(text: str) -> bool:
    """Returns whether a text says what was changed; that the tests pass now is no change."""
    return _FIX.search(_OUTCOME.sub("", text)) is not None


def _is_whole(text: str) -> bool:
    """Returns whether a claim can be read alone: a clause before each of its pronouns can say what is meant."""
    if not is_claim(text) or not stands_alone(text) or _THE_SAME.search(text):
        return False
    before = (_CLAUSE_GAP.split(text[: match.start()]) for match in _POINTING.finditer(text))
    return all(len(term_set(own)) < 2 <= len(term_set(" ".join(earlier))) for *earlier, own in before)


async def suggest(
    current: Current, reader: Reader, project: str, observations: Sequence[Observation], writing: Writing
) -> None:
    """Store what failures and their fixes in these observations, in time order, suggest; nothing that a lesson says."""
    made = await asyncio.to_thread(suggestions, observations)
    listing = lessons(reader.tenant, project)
    learned = await newest(current.documents, listing, Lesson, PROJECT_MEMORIES, reader) if made else []
    learned = list(filter(is_stated, learned))
    hidden = await rejected(current.documents, listing, Lesson, PROJECT_MEMORIES, reader) if made else []
    hidden_claims = [Claim.of(lesson.content) for lesson in hidden]
    by_id = {str(observation.id): observation for observation in observations}
    session_of = {str(observation.id): observation.session for observation in observations}
    earlier = [{*map(session_of.get, lesson.sources)} for lesson in learned if lesson.origin == SUGGESTION]
    count = Counter(session for sessions in earlier for session in sessions)
    for suggestion in made:
        claim, proof = Claim.of(suggestion.content), [by_id[name] for name in suggestion.sources]
        session = proof[-1].session
        existing = next((lesson for lesson in learned if claim.is_said_by(Claim.of(lesson.content), SAME_CLAIM)), None)
        evidence = {*suggestion.sources}
        is_known = existing is not None and (existing.origin != SUGGESTION or evidence & {*existing.sources})
        is_known = is_known or any(claim.is_said_by(other, SAME_CLAIM) for other in hidden_claims)
        if is_known or count[session] >= SUGGESTED:
            continue
        count[session] += 1
        content = suggestion.content if existing is None else existing.content
        command = RecordLesson(
            event_id=f"suggestion:{fingerprint(content, *sorted(suggestion.sources))}",
            project=project,
            content=content,
            confidence=suggestion.confidence,
            origin=SUGGESTION,
            derived_from=suggestion.sources,
            trust=lowest(item.trust for item in proof if is_stated(item)),  # of those it quotes
            occurred_at=max(item.occurred_at for item in proof),
        )
        await writing.give(command)


REFLECTED = {slot_rules.PENDING, slot_rules.PATTERNS, slot_rules.CONTEXT}


class SlotsReflected(NamedTuple):
    """How many slots were changed, and of how many observations that was made."""

    slots_changed: int
    observations: int
    position: str


async def reflect_slots(
    current: Current, clock: Clock, session: Session, caller: Caller, newest: int = 50, *, reader: Reader | None = None
) -> SlotsReflected:
    """Bring the slots of its project that follow the work up to date with a session.

    A reader's are made of what it may see.
    """
    project = session.project
    seen = readable(await observations_of(current.documents, session), reader)[-newest:]
    route = project_route(caller.tenant, project)
    slots: dict[str, Slot] = default_slots(caller.tenant, project)
    for label in REFLECTED:
        stored = await current.get(route, slot_id(caller.tenant, project, label))
        if isinstance(stored, Slot):
            slots[label] = stored
    writable = {label: slots[label] for label in REFLECTED if label in slots and not slots[label].read_only}
    changed = slot_rules.reflect(seen, writable, clock())
    writing = Writing(current, caller)
    for label, content in changed.items():
        command = SetSlot(
            label=label,
            content=content,
            project=project,
            session_id=session.session_id,
            trust=lowest(("agent_concluded", slots[label].trust, *(row.trust for row in seen if is_condensed(row)))),
        )
        await writing.give(command)
    return SlotsReflected(len(changed), len(seen), writing.position)
