"""Session summaries, by the model if one is available, otherwise by the rules; and the relations that it extracts."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import chain, groupby
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from ingest.commands.decide import Caller, Relate, SummariseSession
from ingest.errors import NotFound
from ingest.events.envelope import Trust
from ingest.ids import DocumentId, relation_id
from ingest.kinds import RELATION
from ingest.log.position import Position, Token, partition_of, project_route
from ingest.secrets.scrub import is_only_marks
from projections.condensing.salience import SHORT, Sentence, chosen, sentences_of
from projections.nouns.access import Reader, may_read
from projections.nouns.lesson import Lesson
from projections.nouns.memory import MADE_TAGS, Memory
from projections.nouns.observation import Observation, session_observations
from projections.nouns.relation import Relation
from projections.nouns.rows import derived
from projections.nouns.session import Session, Summary, summary_id, untold
from projections.nouns.trust import lowest
from projections.operations.current import Current, Writing
from projections.queries.documents import DocumentReader
from projections.text.accounts import MODIFYING, account, in_time, is_call_alone, prose, story_turn
from projections.text.claims import VERB_STEMS
from projections.text.sentences import ALIKE, FULL_SENTENCE, closed, pieces, shortened, term_set
from projections.text.story import story_of
from projections.text.terms import UNSPACED, terms
from projections.text.turns import is_expansion

if TYPE_CHECKING:
    from projections.condensing.llm.assistant import Assistant

TITLE_CHARS = 160
CHAT_TURN_CHARS = 300
"""Half of the turns of a chat are at most as long; an assistant's answers are longer."""
FACT_CHARS = 100
"""Of the fact of one of two speakers in a title."""
EARLY, MOST_ABOUT = 0.15, 5
"""Worth, in a title, that the last fact of a chat lacks, as news comes first; and that a fact gains, up to twice, for
so many occurrences of its terms in others."""
SUMMARY_CHARS = 620
"""Of all sentences together, at most some 155 tokens: what an agent gets of a session that it did not see."""
NARRATIVE_CHARS = 1500
"""Of a session that was taken up again and again, and of a model's."""
NARRATIVE_LEAST = 200
"""Of the narrative, however much was decided and is left."""
DECISIONS = 12
REMAINING = 12
FILES = 20
CONCEPTS = 12


_HEADING = re.compile(r"^# +(.+?)[ #]*$", re.MULTILINE)
_STEPPING = re.compile(
    r"(?:(?:now|next|first|good|great|perfect|excellent|ok(?:ay)?|alright|so|yes)\b[\s,.!—–-]*)*(?:let me|let['’]s"
    r"|i['’]ll|i['’]m (?:going|ready) to|i (?:have|see) (?:a |an |the )?(?:complete|full|issue|problem|everything)"
    r"|(?:now )?i (?:have|understand|see)\b)",
    re.IGNORECASE,
)
"""How an agent begins to say what it is about to do."""
_ROW = re.compile(r"\s*(?:\||//|\d+→|[+-]\d*→)|.*\|.*\|.*\|")
"""A row of a table, or a line of a listing."""


class Digest(Struct, frozen=True):
    """A session in short; no sentence is in it twice. `decisions` are in the order they were made, with their reasons
    where those were given; `remaining` is what was left to do; files have the modified ones first. `told_by_tools` are
    the sentences of the narrative that tools told, `trust` is the lowest class of all others.
    """

    title: str
    narrative: str
    decisions: list[str]
    files: list[str]
    concepts: list[str]
    observation_count: int
    remaining: list[str] = []
    trust: Trust = "agent_concluded"
    told_by_tools: list[str] = []


TELLING = 3
"""Terms of a prompt that says what is wanted; "go on" and "fix both" refer to something else."""
OPENING = 5
"""Sentences of a prompt in which it says what it is about."""
_EMPTY = re.compile(r"\b(?:the following|below)\b|\A.{0,30}\b(?:this|that|it)\?\Z|\":|\A\S+:\d+:", re.IGNORECASE)
_CONNECTIVE = re.compile(
    r"\A(?:(?:and|also|now|ok|okay|so|then|just|first|please|hi|yes|no|alright)\b[\s,]*)+", re.IGNORECASE
)
_WISH = re.compile(
    r"\A(?:what|which|who|why|how|where)\b"
    r"|\b(?:need|want|like to|hoping|looking (?:for|to)|(?:can|could) you|please|let['\u2019]?s|should)\b",
    re.IGNORECASE,
)
_AROUND = ".,;:!?()\"'`"
_REQUEST_VERBS = VERB_STEMS.union(
    terms(
        "analyze bump configure convert debug describe design document flip generate implement improve investigate let"
        " list look note notice plan refactor research rewrite search summarize translate"
    )
)
"""Verbs that begin a request."""
_BETWEEN = " \n\t.,;:!?\u2013\u2014"
"""Characters between a title and the rest of a message."""


def digest(observations: Sequence[Observation], title: str = "") -> Digest | None:
    """Returns the digest of a session; None for no observations.

    The title is the one given, else what the user wanted, else the sentence that matters most.
    """
    if not observations:
        return None
    ordered = _without_expansions(sorted(observations, key=in_time))
    story = story_of(list(map(story_turn, ordered)))
    entries = [entry for entry in (*story.decisions, *story.remaining) if ordered[entry.number].trust not in FENCED]
    decisions = [entry for entry in entries if entry in story.decisions][-DECISIONS:]
    chat = is_chat(ordered)
    remaining = [entry for entry in entries if entry in story.remaining][-REMAINING:]
    sentences = sentences_of(ordered, is_chat=True) if chat else tellable(sentences_of(ordered))
    given = "" if is_only_marks(title) else shortened(title, TITLE_CHARS)
    # a title is shown outside of fences, so no tool's words may be in it
    prompts = [item for item in sentences if (chat or item.part == "user") and _trust_of(item, ordered) not in FENCED]
    goal = [] if given else _news(prompts, ordered) if chat else _goal(prompts)
    heading = given or shortened(_joined(goal), TITLE_CHARS)
    if heading.startswith("/"):
        heading = shortened(_with_subject(heading, ordered), TITLE_CHARS)
    others = [item for item in sentences if item not in goal and (item.part != "user" or _is_worded(item))]
    listed = [term_set(entry.text) for entry in (*decisions, *remaining)]
    others = [item for item in others if not any(map(partial(_is_listed, item), listed))]
    if chat:
        others = [item for item in others if item.text not in heading] or others
    listed_chars = sum(len(entry.text) for entry in (*decisions, *remaining))
    selected = chosen(others, max(SUMMARY_CHARS - len(heading) - listed_chars, NARRATIVE_LEAST))
    stated = [item for item in selected if _trust_of(item, ordered) not in FENCED]
    first = "" if ordered[0].trust in FENCED else shortened(account(ordered[0]), TITLE_CHARS)
    settled = shortened(decisions[0].text, TITLE_CHARS) if decisions else ""
    headline = heading or _best(stated) or settled or ("" if is_only_marks(first) else first) or "session"
    selected = [*_without(selected, headline)] or selected or goal or sentences[:1]
    narrated = selected
    if decisions or remaining:  # they tell enough; without them, the request is told rather than nothing
        narrated = [item for item in selected if item not in goal]
    concepts = Counter(concept for item in ordered for concept in dict.fromkeys(map(str.lower, item.concepts)))
    return Digest(
        title=headline,
        narrative=_narrative(narrated, ordered),
        decisions=[entry.text for entry in decisions],
        remaining=[entry.text for entry in remaining],
        files=modified_first(ordered)[:FILES],
        concepts=[concept for concept, _ in concepts.most_common(CONCEPTS)],
        observation_count=len(observations),
        trust=lowest(
            [
                *(_trust_of(item, ordered) for item in [*goal, *stated]),
                *(ordered[entry.number].trust for entry in entries),
            ]
        ),
        told_by_tools=[closed(item.text) for item in narrated if _trust_of(item, ordered) in FENCED],
    )


def is_chat(observations: Sequence[Observation]) -> bool:
    """Returns whether a session is a chat of people: several speakers who are no user of an agent, without tools, in
    short turns."""
    is_spoken = all(item.turn == "agent" and not item.files and "tool_name" not in item.data for item in observations)
    speakers = {item.agent_id for item in observations}
    return is_spoken and len(speakers) > 1 and median(len(prose(item)) for item in observations) <= CHAT_TURN_CHARS


def _news(facts: Sequence[Sentence], ordered: Sequence[Observation]) -> list[Sentence]:
    """The fact of each of two speakers that matters most, an early one rather than a late one, in time order."""
    spread = Counter(term for item in facts for term in item.terms)

    def lack(numbered: tuple[int, Sentence]) -> float:
        number, item = numbered
        about = min(2, sum(spread[term] - 1 for term in item.terms) / MOST_ABOUT)
        return EARLY * (number / len(facts) - about) - item.worth

    best: dict[str, tuple[int, Sentence]] = {}
    for number, item in sorted(enumerate(facts), key=lack):
        name = ordered[item.place].agent_id
        text = shortened(f"{name}: {item.text}".removeprefix(": "), FACT_CHARS)
        best.setdefault(name, (number, item._replace(text=text)))
    return [item for _, item in sorted([*best.values()][:2])]


FENCED = ("tool_output", "external")
"""Classes of what tools told."""


def _trust_of(item: Sentence, ordered: Sequence[Observation]) -> Trust:
    """The class of a sentence: its observation's; of a call that does not say how it went, the agent's who made it."""
    observation = ordered[item.place]
    wrote = observation.kind in MODIFYING and item.text.endswith("`")
    only_called = item.part == "call" and (wrote or is_call_alone(item.text))
    return "agent_concluded" if observation.trust in FENCED and only_called else observation.trust


def tellable(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Returns the sentences that a summary may tell, unless there are no others: no small talk, nor calls that only
    looked, nor edits of which the agent says later what came of them."""

    def is_idle(item: Sentence) -> bool:
        looked = item.part == "call" and not item.features["changes something"]
        asks = item.part == "assistant" and item.features["question"]
        polite = asks or (item.part != "call" and {"greeted", "offered"} & item.features.keys())
        steps = item.part == "assistant" and _STEPPING.match(item.text)
        idle = steps or looked or (polite and item.features["short"]) or item.features.get("summed up later")
        return bool(idle) and not {"done", "failed"} & item.features.keys()

    return [item for item in sentences if not (_ROW.match(item.text) or is_idle(item))] or list(sentences)


def modified_first(observations: Iterable[Observation]) -> list[str]:
    """Returns the distinct files of the observations: those that were written or edited, then the others.

    What was searched for is left out: a pattern, or a folder to look in, stands among a search's files.
    """
    others = [observation for observation in observations if observation.kind != "search"]
    modified = [file for observation in others if observation.kind in MODIFYING for file in observation.files]
    return list(dict.fromkeys(modified + [file for observation in others for file in observation.files]))


def _goal(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences that say what the user wanted, in time order, together at most `TITLE_CHARS` unless it is one: the
    first prompt that says something, up to what it asks for; if that is little, also a later request."""
    prompts = [list(prompt) for _, prompt in groupby(sentences, key=lambda item: item.place)]
    worded = [some for prompt in prompts if (some := [item for item in prompt if _is_worded(item)])]
    if not worded:
        return []
    telling = (prompt for prompt in worded if _terms_of(prompt) >= TELLING or prompt[0].text[0] == "/")
    opening = next(telling, max(worded, key=_terms_of))
    request = next((index for index, item in enumerate(opening[:OPENING]) if _asks(item)), min(1, len(opening) - 1))
    title = opening[: request + 1]
    if len(_joined(title)) > TITLE_CHARS:  # of the reason only the beginning, if there is room
        room = TITLE_CHARS - len(title[-1].text) - 2
        reason = [title[0]._replace(text=shortened(title[0].text, room))] if room > SHORT else []
        title = [*reason, title[-1]] if room > 0 else title[:1]
    later = chain(*(prompt[:2] for prompt in worded[worded.index(opening) + 1 :]))
    for item in filter(_asks, chain(opening[request + 1 : OPENING], later)):
        is_more = item in opening or _terms_of(title) < FULL_SENTENCE
        adds = _terms_of([*title, item]) - _terms_of(title)
        if is_more and adds > 1 and len(_joined([*title, item])) <= TITLE_CHARS:
            title.append(item)
    return title


def _joined(sentences: Iterable[Sentence]) -> str:
    texts = [item.text for item in sentences]
    return " ".join([*map(closed, texts[:-1]), *texts[-1:]])


def _terms_of(sentences: Iterable[Sentence]) -> int:
    return len(frozenset[str]().union(*(item.terms for item in sentences)))


def _is_worded(item: Sentence) -> bool:
    """Whether a user wrote it, to say something: no pasted output, nor what only announces or points to something."""
    if item.text[0] == "/":  # a command
        return True
    words = [word.strip(_AROUND).replace("'", "") for word in item.text.split()]
    plain = sum(word.isalpha() or UNSPACED.search(word) is not None for word in words)
    is_said = 2 * plain >= len(words) and (item.text[0].isalnum() or item.text[0] in "`@#\"'")
    return is_said and len(item.terms) > 1 and not _EMPTY.search(item.text)


def _asks(item: Sentence) -> bool:
    verb = _CONNECTIVE.sub("", item.text).partition(" ")[0].lower().strip(_AROUND)
    is_verb = not re.search(r"[^s]s\Z", verb) and not _REQUEST_VERBS.isdisjoint(terms(verb))
    return is_verb or item.text.endswith(("?", "？")) or _WISH.search(item.text) is not None


def _best(sentences: Sequence[Sentence]) -> str:
    """The sentence that matters most; cut to its first piece, or to what fits of that."""
    text = max(sentences, key=lambda item: item.worth).text if sentences else ""
    return text if len(text) <= TITLE_CHARS else shortened(pieces(text)[0], TITLE_CHARS)


def _without(sentences: Iterable[Sentence], headline: str) -> Iterator[Sentence]:
    """The sentences without the title, which a user wrote; a sentence of an agent stays unless the title has it all."""
    for item in sentences:
        rest = item.text.removeprefix(headline)
        if item.part == "user" and rest != item.text and not rest[:1].isalnum():
            if rest := rest.lstrip(_BETWEEN):
                yield item._replace(text=rest)
        elif item.part != "user" or item.text not in headline:
            yield item


def _without_expansions(ordered: Sequence[Observation]) -> list[Observation]:
    """The observations without what the host made of commands."""
    before = ["", *(prose(item) if item.turn == "user" else "" for item in ordered)]
    return [
        item
        for item, earlier in zip(ordered, before, strict=False)
        if item.turn != "user" or not is_expansion(earlier, prose(item))
    ]


def _with_subject(command: str, ordered: Sequence[Observation]) -> str:
    """A command with what it was run for: the first heading of the agent's answers that has words of its own."""
    headings = (
        heading
        for item in ordered
        if item.turn == "agent"
        for heading in _HEADING.findall(prose(item))
        if len(term_set(heading)) >= TELLING
    )
    subject = next(headings, "")
    return f"{command.partition('. ')[0]}: {subject}" if subject else command


def _is_listed(item: Sentence, entry_terms: frozenset[str]) -> bool:
    """Whether a sentence says what a decision or an open point says."""
    return len(item.terms & entry_terms) >= ALIKE * max(1, len(item.terms))


def _narrative(sentences: Sequence[Sentence], ordered: Sequence[Observation]) -> str:
    """The sentences in time order, of one agent its last words first and the user's last; who says them is named where
    that changes."""
    agents = {item.agent_id for item in ordered if item.turn == "agent"}
    if len(agents) <= 1:
        last = max((item.place for item in sentences if item.part == "assistant"), default=-1)
        sentences = sorted(sentences, key=lambda item: (item.part == "user", item.place != last))
    lines: list[str] = []
    before = ""
    for item in sentences:
        speaker = "User" if item.part == "user" else ordered[item.place].agent_id if len(agents) > 1 else ""
        lines.append(f"{speaker}: {closed(item.text)}" if speaker and speaker != before else closed(item.text))
        before = speaker
    return " ".join(lines)


def continued(earlier: Digest, later: Digest, observation_count: int) -> Digest:
    """Returns the digest of both: the earlier title, then the earlier narrative, then the later one.

    Each tells at most half of a full narrative where both do not fit, so that a session that is taken up again and
    again still says how it began; of lists the newest stay.
    """
    before, after = earlier.narrative, later.narrative
    if len(before) + len(after) + 1 <= NARRATIVE_CHARS:
        narrative = " ".join(part for part in (before, after) if part)
    else:
        # cut, a sentence of a tool could not be told from the others
        before, after = untold(earlier.narrative, earlier.told_by_tools), untold(later.narrative, later.told_by_tools)
        half = NARRATIVE_CHARS // 2 - 1
        earlier_part = shortened(before, max(half, NARRATIVE_CHARS - 1 - len(after)))
        narrative = f"{earlier_part} {shortened(after, max(half, NARRATIVE_CHARS - 1 - len(before)))}"
    return Digest(
        title=earlier.title or later.title,
        narrative=narrative,
        decisions=_newest((*earlier.decisions, *later.decisions), DECISIONS),
        remaining=later.remaining,
        files=_newest((*earlier.files, *later.files), FILES),
        concepts=_newest((*earlier.concepts, *later.concepts), CONCEPTS),
        observation_count=observation_count,
        trust=lowest((earlier.trust, later.trust)),
        told_by_tools=[text for text in (*earlier.told_by_tools, *later.told_by_tools) if text in narrative],
    )


def _newest(values: Iterable[str], most: int) -> list[str]:
    return list(dict.fromkeys(values))[-most:]


T = TypeVar("T")
H = TypeVar("H", bound=Memory | Lesson)

OBSERVATIONS_READ = 500
"""Of a session, its newest: what a summary is made of."""
PROJECT_MEMORIES = 500
"""Of a project, its newest memories; as many lessons."""


def fingerprint(*parts: str) -> str:
    """What an event id takes from the evidence."""
    return blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()


def digest_of(summary: Summary) -> Digest:
    """A summary as the rules make it."""
    return Digest(**{name: getattr(summary, name) for name in Digest.__struct_fields__})


def is_made(memory: Memory) -> bool:
    """Whether the server made a memory of other documents: it says nothing that those do not."""
    return bool(memory.condensed) or bool(memory.derived_from and MADE_TAGS.intersection(memory.tags))


def readable(observations: Sequence[Observation], reader: Reader | None) -> list[Observation]:
    """What the reader may see; everything without one, as for a job."""
    return [observation for observation in observations if reader is None or may_read(observation, reader)]


async def observations_of(documents: DocumentReader, session: Session) -> list[Observation]:
    """The session's newest observations, oldest first, but for those in quarantine."""
    home = [partition_of(session.route, documents.partitions)]
    page = await documents.page(session_observations(session.id), home, limit=OBSERVATIONS_READ)
    observations = [row.document for row in reversed(page.documents) if isinstance(row.document, Observation)]
    return [observation for observation in observations if not observation.quarantined]


async def newest(documents: DocumentReader, listing: str, kind: type[T], limit: int, reader: Reader) -> list[T]:
    """Of the newest documents of a listing, those of a kind that the reader may see."""
    page = await documents.page(listing, range(documents.partitions), limit=limit)
    return [
        document.document
        for document in page.documents
        if isinstance(document.document, kind) and may_read(document.document, reader)
    ]


async def rejected(documents: DocumentReader, listing: str, kind: type[H], limit: int, reader: Reader) -> list[H]:
    """Of the newest documents of a listing, those of a kind that are in quarantine: their like is not made again. For
    an isolated reader, only those of its agent."""
    everything = await newest(documents, listing, kind, limit, reader._replace(operator=True))
    return [
        document for document in everything if document.quarantined and reader.only_agent in ("", document.agent_id)
    ]


EXTRACTED_CONFIDENCE = 0.6
"""Of a relation that a model read out of a summary."""


async def _extract_relations(
    current: Current, assistant: "Assistant", session: Session, made: Digest, writing: Writing
) -> str:
    """Have the model read relations out of a session's digest; returns why it did not, if so.

    A relation that a caller stated stays the caller's.
    """
    from projections.condensing.llm.answers import RELATION_CHARS
    from projections.condensing.llm.assistant import Skipped

    graph = await assistant.extract(session.tenant, [made.title, made.narrative, *made.decisions])
    if isinstance(graph, Skipped) or not graph.relations:
        return str(graph) if isinstance(graph, Skipped) else ""
    now = await current.get(session.route, DocumentId(session.id))
    # the model took its time; what was forgotten since it read the session must not come back
    if not isinstance(now, Session) or now.forgotten_at != session.forgotten_at:
        return "part of the session was deleted during summarization"
    edges = [
        (f"concept:{item.source.lower()}", item.relation[:RELATION_CHARS], f"concept:{item.target.lower()}")
        for item in graph.relations
    ]
    route = project_route(session.tenant, session.project)
    home = partition_of(route, current.documents.partitions)
    existing = await current.documents.get([(home, relation_id(route, *edge)) for edge in edges])
    stated = {
        edge
        for edge, relation in zip(edges, existing, strict=True)
        if isinstance(relation, Relation) and not relation.sources
    }
    evidence = session.id, str(session.observation_count), session.forgotten_at
    for edge in edges:
        if edge in stated:
            continue
        source, relation, target = edge
        command = Relate(
            event_id=f"extract:{fingerprint(*evidence, *edge)}",
            project=session.project,
            source=source,
            target=target,
            relation=relation,
            confidence=EXTRACTED_CONFIDENCE,
            derived_from=[summary_id(DocumentId(session.id))],
            metadata={"model": graph.model, "prompt_version": graph.prompt_version},
        )
        await writing.give(command)
    return ""


class Summarised(NamedTuple):
    """A session's digest and who made it (`model` empty: the rules).

    `fell_back`: why the model that was asked did not make it, or read no relations out of it; empty when it did.
    """

    digest: Digest
    model: str
    fell_back: str
    position: str


Suggest: TypeAlias = Callable[[Reader, str, Sequence[Observation], Writing], Awaitable[None]]


@dataclass
class SessionSummaries:
    """Makes a session's summary, and has the model read relations out of its own.

    `suggest` stores the lessons that a session's observations suggest.
    """

    _current: Current
    _assistant: "Assistant | None"
    _suggest: Suggest

    async def summarise(self, session: Session, caller: Caller, reader: Reader | None = None) -> Summarised:
        """Summarise a session, by the model if there is one that answers; raises NotFound without observations.

        A model's summary stays until something new is observed. A reader's summary is made of what it may see; one of
        several agents' observations has no agent, so no reader in isolated scope sees it. What an existing summary says
        of retired observations is continued.
        """
        everything = await observations_of(self._current.documents, session)
        visible = readable(everything, reader)
        partial = len(visible) < len(everything)
        # no other document has what retired observations said
        earlier = await self._existing(session) if session.retired and not partial else None
        if earlier is not None and earlier.observation_count >= session.observation_count:
            return self._unchanged(session, earlier)
        if not visible:
            raise NotFound(f"session {session.session_id!r} has no observations to summarize")
        agents = {observation.agent_id for observation in visible}
        if len(agents) > 1:
            caller = caller._replace(agent_id="")
        covered = session.summarised == session.observation_count and not partial
        standing = await self._by_a_model(session) if covered else None
        if standing is not None and (self._assistant is None or self._assistant.model == standing.model):
            return await self._resumed(session, standing, caller)
        if earlier is not None:  # what it does not cover is the newest
            visible = visible[-(session.observation_count - earlier.observation_count) :]
        made, model, prompt_version, fell_back = await self._made_of(session, visible)
        if earlier is not None:
            made = continued(digest_of(earlier), made, session.observation_count)
        if standing is not None and not model:
            return self._unchanged(session, standing, fell_back)
        command = SummariseSession(
            **asdict(replace(made, observation_count=session.observation_count)),
            event_id=f"summary:{session.id}:{session.observation_count}:{session.forgotten_at}:{model}"
            + (f":{fingerprint(*sorted(agents))}" if partial else ""),
            project=session.project,
            session_id=session.session_id,
            occurred_at=max(observation.occurred_at for observation in visible),
            agent_id="" if len(agents) > 1 else caller.agent_id or session.agent_id,
            model=model,
            prompt_version=prompt_version,
            forgotten_at=session.told_from,
        )
        writing = Writing(self._current, caller)
        accepted = await writing.give(command)
        if model and accepted.duplicate and not partial and (first := await self._by_a_model(session)) is not None:
            return await self._resumed(session, first, caller)  # another caller summarised it at the same time
        if model and self._assistant is not None:
            fell_back = await _extract_relations(self._current, self._assistant, session, made, writing)
        await self._suggest(reader or Reader(session.tenant), session.project, visible, writing)
        return Summarised(made, model, fell_back, writing.position)

    async def _made_of(self, session: Session, seen: Sequence[Observation]) -> tuple[Digest, str, str, str]:
        """The digest, its model and prompt version, and why the rules made it though there is a model."""
        fell_back = ""
        if self._assistant is not None:
            from projections.condensing.llm.assistant import Skipped

            answer = await self._assistant.summarise(session.tenant, seen)
            if not isinstance(answer, Skipped):
                trust = lowest(observation.trust for observation in seen)
                fields: dict[str, Any] = {**asdict(answer), "observation_count": len(seen), "trust": trust}
                model, prompt_version = fields.pop("model"), fields.pop("prompt_version")
                return Digest(**fields), model, prompt_version, ""
            fell_back = str(answer)
        made = await asyncio.to_thread(digest, seen, session.title)
        assert made is not None  # there are observations
        return made, "", "", fell_back

    async def _by_a_model(self, session: Session) -> Summary | None:
        """The summary of all that a session has observed, if there is one and a model made it."""
        summary = await self._existing(session)
        is_current = summary is not None and summary.observation_count == session.observation_count
        return summary if summary is not None and summary.model and is_current else None

    async def _existing(self, session: Session) -> Summary | None:
        summary = await self._current.get(session.route, summary_id(DocumentId(session.id)))
        return summary if isinstance(summary, Summary) else None

    def _unchanged(self, session: Session, standing: Summary, fell_back: str = "") -> Summarised:
        """A summary that exists already, as if it had been made now."""
        home = partition_of(session.route, self._current.documents.partitions)
        token = Token.of([(home, Position.parse(standing.position))])
        return Summarised(digest_of(standing), standing.model, fell_back, str(token))

    async def _resumed(self, session: Session, standing: Summary, caller: Caller) -> Summarised:
        """A summary that exists already; relations are read out of it if none were, as after an outage."""
        summarised = self._unchanged(session, standing)
        if self._assistant is None:
            return summarised
        documents = self._current.documents
        await self._current.settle_project(session.tenant, session.project)
        home = partition_of(project_route(session.tenant, session.project), documents.partitions)
        names = await documents.members_of([derived(standing.id)], [home])
        if any(name.partition("_")[0] == RELATION for name in names):
            return summarised
        writing = Writing(self._current, caller, summarised.position)
        fell_back = await _extract_relations(self._current, self._assistant, session, summarised.digest, writing)
        return summarised._replace(fell_back=fell_back, position=writing.position)
