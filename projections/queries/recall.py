"""Recall: find the right memories for a query, by words and by the query's vector.

One thread makes the vectors of queries, with the model of the index, and a cache keeps them.
"""

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import cache, cached_property
from typing import Annotated, Literal, NamedTuple, cast

import msgspec
import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from ingest.errors import CommandRejected, MnemologError
from ingest.events.envelope import Trust
from ingest.ids import DocumentId
from ingest.kinds import SearchedKind
from ingest.log.position import Token
from ingest.names import visible
from ingest.nouns.command import Name, Names
from ingest.platform.clock import Clock, system_clock, time_zone, to_ms
from ingest.platform.partial import left_out, left_out_message
from ingest.platform.tracing import Attributes, span
from projections.index.protocol import EmbedderMismatch, IndexService
from projections.nouns.access import Reader, may_read
from projections.nouns.document import Document
from projections.nouns.index_entry import searchable, texts_in
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation
from projections.nouns.session import Summary
from projections.nouns.trust import below
from projections.queries.documents import DocumentReader
from projections.queries.lookup import FileChange, Lookup, key_scope
from projections.queries.views import in_view
from projections.search.question import MAX_QUERY_TERMS, Certainty, Filter, Hit, Question, Ranking, certainty
from projections.store.read_ledger import NoteRead, unnoted
from projections.text.accounts import headline, prose
from projections.text.changes import announces, asks_past
from projections.text.dates import NamedTime, named_time, without_middle
from projections.text.sentences import SCAN_CHARS, has_words, pieces, plain
from projections.text.similarity import states_the_same
from projections.text.story import is_small_talk
from projections.text.terms import SCANNED, query_terms_of, snippet, terms
from projections.text.tokens import estimated_tokens, fitting
from projections.vectors.embedder import Embedder, ModelUnavailable, embed_questions

# results made on the event loop, and the characters of their texts: more takes longer than a millisecond or two
MADE_INLINE, READ_INLINE = 20, 20_000
# characters of a query whose terms are taken on the event loop: a thread costs half a millisecond
ASKED_INLINE = 1_000
# asked of the index beyond the limit, to replace documents deleted between search and read
SPARE_HITS = 4

# answers that equal requests of equal readers get until the index changes, and for how long at most: lessons fade, and
# what fell due is found late. Their texts have at most so many characters each: 25 MiB
ANSWERS_CACHED, ANSWERS_CACHED_S, CACHED_CHARS = 256, 5.0, 100_000

LeastSure = Annotated[float, Meta(ge=0, le=1)] | None
"""The least confidence of a result; None for no limit."""


TimeZone = Annotated[str, Meta(max_length=64)]
"""The IANA name of the zone in which "yesterday" is meant; empty: UTC."""


class RecallRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """What to recall. Everything but `query` narrows or weighs; nothing given searches all the tenant's documents.

    `projects` are several of which any will do, `any_tags` tags of which one will; `tags` are all needed. `types` is a
    memory's type or purpose, an observation's kind, a lesson's severity. `ranking` `similarity` is memex's formula
    exactly, `rrf` agent-memory's, where `recency_boost` lifts what is recent.

    With `min_confidence` results of less confidence are left out, for callers who prefer silence; those of unknown
    confidence stay. Without it nothing that was found is withheld: `certainty` of the answer says whether it is
    probably not recorded. `min_trust` is the lowest trust class of a result; from high to low:
    user_stated, agent_concluded, imported, tool_output, external. With `fold` a result represents those that say nearly
    the same, unless the question counts.

    With `max_tokens` the titles and contents of all results have at most so many tokens, and `content` is the snippet;
    a result that does not fit is left out, and counted in `omitted`.

    `prompt_of` is the session whose prompt the query is: nothing of that session is found, and nothing at all for small
    talk ("thanks, see you tomorrow").

    A time that the query names ("yesterday", "on Tuesday") is resolved by `as_of`, else the clock, in `time_zone`,
    unless `from` or `to` is given.
    """

    query: Annotated[str, Meta(min_length=1, max_length=20_000)]
    project: Name | None = None
    projects: Names = []
    agent_id: Name = ""
    session_id: Name = ""
    user_id: Name = ""
    kinds: Annotated[list[SearchedKind], Meta(max_length=4)] = []
    tags: Names = []
    any_tags: Names = []
    from_: datetime | None = None
    to: datetime | None = None
    as_of: datetime | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 10
    mode: Literal["hybrid", "lexical", "vector"] = "hybrid"
    alpha: Annotated[float, Meta(ge=0, le=1)] | None = None
    half_life_days: Annotated[float, Meta(gt=0)] | None = None
    ranking: Ranking = "fused"
    recency_boost: bool = True
    types: Names = []
    files: Names = []
    concepts: Names = []
    explain: bool = False
    min_confidence: LeastSure = None
    min_trust: Trust | None = None
    fold: bool = True
    max_tokens: Annotated[int, Meta(ge=1, le=200_000)] | None = None
    time_zone: TimeZone = ""
    prompt_of: Name = ""
    after: Annotated[str, Meta(max_length=100_000)] = ""
    consistency: Literal["session", "eventual"] = "session"


class RecallResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One recalled document. `score` is comparable within one answer only, `confidence` (0..1) among all; no result has
    a higher one than those before it.

    `snippet` is the part of it that the query's words are in, `trust` its trust class (left out: agent_concluded).
    `derived_from` are the documents it was made of, `confirmed` how often it proved right, `repeats` those that say
    nearly the same and the summary that quotes it. `changed_since` are files that a memory or lesson names and that
    were changed after it, and `valid_until` is when a memory stops being true, or stopped. `superseded_by` is a newer
    result that probably replaces this one.
    """

    id: str
    kind: SearchedKind
    score: float
    title: str
    snippet: str
    content: str
    session_id: str | None
    agent_id: str | None
    project: str
    occurred_at: datetime
    metadata: dict[str, str]
    confidence: float | None = None
    derived_from: list[str] = []
    confirmed: int = 0
    repeats: list[str] = []
    corroborated_by: int = 1
    trust: Trust = "agent_concluded"
    changed_since: list[FileChange] = []
    superseded_by: str = ""
    explain: dict[str, float] | None = None
    valid_until: datetime | None = None


class Omitted(Struct, frozen=True, kw_only=True):
    """Results that `max_tokens` left out: how many, and how many tokens they have."""

    count: int = 0
    tokens: int = 0


class RecallAnswer(Struct, frozen=True, kw_only=True):
    """What was recalled. `confidence` (0..1) is how likely the subject of the query is recorded, also where nothing is
    returned, and `certainty` the words for it; None where that is not known. `lag`: log entries not searchable yet, by
    partition; `degraded`: what was left out; `notes`: names in the request of which nothing is found, and whether only
    the rarest terms of a long query were searched; `omitted` is null without `max_tokens`;
    `recall_id` names the answer in feedback and in the read ledger.
    """

    results: list[RecallResult]
    confidence: float | None = None
    certainty: Certainty | None = None
    took_ms: float
    lag: dict[int, int]
    degraded: list[str]
    notes: list[str] = []
    omitted: Omitted | None = None
    recall_id: str = ""


class Recalled(NamedTuple):
    """One result, its document, the ids of those that say the same, and of the one that probably replaces it."""

    hit: Hit
    document: Document
    repeats: list[str]
    superseded_by: str = ""
    snippet: str | None = None
    """None until it is made."""
    writers: set[str] | None = None
    """The independent writers that state it."""


class RecalledDocuments(NamedTuple):
    """Results, best first; what was left out; how likely there is an answer."""

    hits: list[Recalled]
    degraded: list[str]
    confidence: float | None = None
    recall_id: str = ""


class Answered(NamedTuple):
    """An answer, the state of the index that it is of, when it was made, and its documents."""

    version: int | None
    made_s: float
    answer: RecallAnswer
    hits: list[Recalled]

    def holds(self, version: int | None, now_s: float, reader: Reader) -> bool:
        """Whether it would be the same now: the index has not changed, and nothing in it has expired."""
        is_new = version == self.version and now_s - self.made_s < ANSWERS_CACHED_S
        return is_new and all(may_read(hit.document, reader) for hit in self.hits)

    def is_small(self, request: RecallRequest) -> bool:
        """Whether it may be cached."""
        return len(request.query) <= ASKED_INLINE and _is_short(self.hits, CACHED_CHARS)


class Recall:
    """Answers recall requests from the index and the documents."""

    def __init__(
        self,
        index: IndexService,
        documents: DocumentReader,
        clock: Clock = system_clock,
        note_read: NoteRead = unnoted,
    ) -> None:
        """`note_read` notes the documents of every answer."""
        self._note_read = note_read
        self._index, self._documents, self._clock = index, documents, clock
        self._lookup = Lookup(index, documents, clock)
        self._answers: OrderedDict[tuple[bytes, Reader], Answered] = OrderedDict()
        self.on_cached: Callable[[], object] = lambda: None
        """Called for each answer that was made before, for an equal request of an equal reader."""
        self.vectors = QueryVectors(index)

    def close(self) -> None:
        """Give the embedding thread back."""
        self.vectors.close()

    async def warm_up(self) -> None:
        """Load the model, so that the first request does not wait for it."""
        await self.vectors.vector_of(self.vectors.embedder, "warm up")

    async def __call__(self, request: RecallRequest, reader: Reader) -> RecallAnswer:
        """Recall for a reader. `request.agent_id` narrows to what that agent wrote; it is not the reader.

        Raises CommandRejected for a blank query, ProjectionBehind when `after` is not searchable in time.
        """
        started = time.perf_counter()
        if request.after:
            await self._wait_for(request)
            request = replace(request, after="")
        version, key = self._index.version, (msgspec.msgpack.encode(request), reader._replace(now=None))
        answered = self._answers.get(key)
        if answered and answered.holds(version, started, reader) and await self._are_unchanged(answered.hits):
            self.on_cached()
        else:
            recalled = await self._recalled(request, reader)
            answered = Answered(version, started, await self._answer(request, reader, recalled), recalled.hits)
            if version is not None and {*recalled.degraded} <= {WORDS_ONLY} and answered.is_small(request):
                self._answers[key] = answered
                if len(self._answers) > ANSWERS_CACHED:
                    self._answers.popitem(last=False)
        return replace(
            answered.answer,
            took_ms=round((time.perf_counter() - started) * 1000, 2),
            lag=dict(self._index.lag),
            recall_id=self._noted(request, reader, answered.hits),
        )

    async def _are_unchanged(self, hits: Sequence[Recalled]) -> bool:
        """Whether all documents are stored as they were: the index learns some milliseconds later that one was deleted
        or made private."""
        stored = await self._documents.get([(hit.hit.partition, DocumentId(hit.hit.id)) for hit in hits])
        return stored == [hit.document for hit in hits]

    async def _answer(self, request: RecallRequest, reader: Reader, recalled: RecalledDocuments) -> RecallAnswer:
        hits, degraded, confidence, _ = recalled
        if len(request.query) <= ASKED_INLINE:
            words = query_terms_of(request.query)
        else:
            words = await asyncio.to_thread(query_terms_of, request.query)
        changed = await self._lookup.changed_since([hit.document for hit in hits], reader)

        def make() -> list[RecallResult]:
            made = (_result(hit, words, explain=request.explain) for hit in hits)
            return [replace(row, changed_since=changed[row.id]) if row.id in changed else row for row in made]

        results = make() if len(hits) <= MADE_INLINE and _is_short(hits) else await asyncio.to_thread(make)
        omitted = None
        if request.max_tokens is not None:
            short = [replace(result, content=result.snippet) for result in results]
            results = fitting(short, _tokens_of, request.max_tokens)
            selected = {result.id for result in results}
            left_out = [result for result in short if result.id not in selected]
            omitted = Omitted(count=len(left_out), tokens=sum(map(_tokens_of, left_out)))
        projects = {request.project or "", *request.projects}.difference(result.project for result in results)
        others = () if results else (request.agent_id, request.session_id)
        notes = await self._lookup.unknown(reader, sorted(projects), *others)
        if (different := len({*words})) > MAX_QUERY_TERMS:
            notes.append(f"the query has {different:,} different terms; the {MAX_QUERY_TERMS} rarest were searched")
        return RecallAnswer(
            notes=notes,
            results=results,
            confidence=confidence,
            certainty=certainty(confidence),
            took_ms=0.0,
            lag={},
            degraded=degraded,
            omitted=omitted,
        )

    async def found(self, request: RecallRequest, reader: Reader) -> RecalledDocuments:
        """What a recall finds, as documents: for a dialect that shows them in its own way. Raises the same."""
        await self._wait_for(request)
        recalled = await self._recalled(request, reader)
        return recalled._replace(recall_id=self._noted(request, reader, recalled.hits))

    async def _wait_for(self, request: RecallRequest) -> None:
        if request.after and request.consistency != "eventual":
            await self._index.wait_for(Token.parse(request.after))

    async def _recalled(self, request: RecallRequest, reader: Reader) -> RecalledDocuments:
        attributes = {"gen_ai.operation.name": "search_memory"}  # a trace has no query
        if request.project:
            attributes["gen_ai.memory.store.id"] = request.project
        with span("search_memory", attributes) as recalling:
            recalled = await self._search(request, reader)
            recalling.set({"gen_ai.memory.record.count": len(recalled.hits)})
        return recalled

    def _noted(self, request: RecallRequest, reader: Reader, hits: Sequence[Recalled]) -> str:
        """Note the read in the ledger; returns its id."""
        places = ((getattr(result.document, "project", ""), result.hit.id) for result in hits)
        return self._note_read(reader, "prompt" if request.prompt_of else "recall", places)

    async def _search(self, request: RecallRequest, reader: Reader) -> RecalledDocuments:
        if not request.query.strip():
            raise CommandRejected("query is blank", "query")
        if request.prompt_of and is_small_talk(request.query):
            return RecalledDocuments([], [], 0.0)
        now = self._clock()
        question = Question(
            text=request.query,
            named=_named(request, now),
            vector=None,
            mode=request.mode,
            limit=request.limit + SPARE_HITS,
            now_ms=to_ms(now),
            half_life_days=request.half_life_days,
            alpha=request.alpha,
            ranking=request.ranking,
            recency_boost=request.recency_boost,
            shown=request.limit,
            fold=request.fold,
            explain=request.explain,
        )
        allowed = key_scope(
            reader,
            now=now,
            from_ms=request.from_ and to_ms(request.from_),
            to_ms=request.to and to_ms(request.to),
            as_of_ms=request.as_of and to_ms(request.as_of),
            **{name: getattr(request, name) for name in _FILTERED},
            without=[*below(request.min_trust), *([("session", request.prompt_of)] if request.prompt_of else [])],
        )
        searched, degraded = await self.vectors.search(question, allowed)
        best, least = searched[0].answerable if searched else None, request.min_confidence
        is_judged = request.mode == "hybrid" and request.ranking == "fused" and question.named is None
        if is_judged and not searched and not degraded:
            best = 0.0  # nothing matches, by words or by meaning
        # what is not returned is not read, unless it may be the repeat of what is
        searched = [hit for hit in searched if any(_is_sure(match, least) for match in (hit, *hit.repeats))]
        hits = [match for hit in searched for match in (hit, *hit.repeats)]
        documents = await self._documents.get([(hit.partition, DocumentId(hit.id)) for hit in hits])
        if not self._index.ready:
            degraded.append(self._index.trouble or "the index is still loading: some documents may be missing")
        if unread := left_out():
            degraded.append(left_out_message(unread))
        existing = {
            hit.id: document
            for hit, document in zip(hits, documents, strict=True)
            if document is not None and may_read(document, reader)
        }
        recalled = [result for result in folded(searched, existing) if _is_sure(result.hit, least)]
        recalled = summaries_joined(recalled) if request.fold else recalled
        recalled = sorted(recalled, key=lambda result: getattr(result.document, "is_disputed", False))[: request.limit]
        if is_judged and _is_short(recalled[:NEWEST_AMONG]):
            recalled = newest_first(recalled, without_middle(request.query))
        elif is_judged:
            recalled = await asyncio.to_thread(newest_first, recalled, without_middle(request.query))
        recalled = falling(recalled)
        return RecalledDocuments(recalled, degraded, best)


def _is_short(results: Sequence[Recalled], left: int = READ_INLINE) -> bool:
    """Whether the texts that snippets of these results are made from have at most so many characters; that many are
    read on the event loop."""
    for document in (result.document for result in results):
        if isinstance(document, Observation) and not document.content:
            left -= sum(map(len, texts_in(document.data)))
        else:
            left -= len(getattr(document, "content", ""))
        if left < 0:
            return False
    return True


def _tokens_of(result: RecallResult) -> int:
    return estimated_tokens(f"{result.title}\n{result.content}")


def _is_sure(hit: Hit, least: float | None) -> bool:
    """Whether a hit has this least confidence, if there is one; unknown confidence is enough."""
    return least is None or hit.confidence is None or hit.confidence >= least


def falling(results: Sequence[Recalled]) -> list[Recalled]:
    """The results; none has a higher confidence than one before it, because importance, kind or age put that first."""
    lowest, lowered = 1.0, list[Recalled]()
    for result in results:
        confidence = result.hit.confidence
        if confidence is not None and confidence > lowest:
            result = result._replace(hit=replace(result.hit, confidence=lowest))
        elif confidence is not None:
            lowest = confidence
        lowered.append(result)
    return lowered


def _named(request: RecallRequest, now: datetime) -> NamedTime | None:
    """The time that the query names, unless the request has bounds; raises CommandRejected for an unknown zone."""
    try:
        zone = time_zone(request.time_zone)
    except ValueError as error:
        raise CommandRejected(str(error), "time_zone") from error
    bounded = request.from_ is not None or request.to is not None
    return None if bounded else named_time(request.query, request.as_of or now, zone)


def folded(searched: Sequence[Hit], existing: Mapping[str, Document]) -> list[Recalled]:
    """The hits with their documents, best first; one that states the same as a better one is listed as its repeat.

    `existing` has the documents that the reader can see, by id.
    """
    results: list[Recalled] = []
    for hit in searched:
        distinct: list[Recalled] = []
        for match in (hit, *hit.repeats):
            document = existing.get(match.id)
            if document is None:
                continue
            text = _text(document) if hit.repeats else ""
            same = next((better for better in distinct if states_the_same(text, _text(better.document))), None)
            if same is None:
                as_matched = match if match is hit else replace(match, terms=hit.terms)
                distinct.append(Recalled(as_matched, document, [], writers=_writers(document)))
            else:
                same.repeats.append(match.id)
                if same.writers is not None:
                    same.writers.update(_writers(document))
        results += distinct
    if not any(hit.repeats for hit in searched):
        return results
    return sorted(results, key=lambda result: result.hit.score, reverse=True)


def _writers(document: Document) -> set[str]:
    """Who states a memory: one key, or without keys one agent."""
    return {document.writer} if isinstance(document, Memory) else set()


def summaries_joined(results: Sequence[Recalled]) -> list[Recalled]:
    """The results, best first, without the summaries that only quote observations among them.

    A summary is listed as a repeat of the first observation that it quotes, which takes its place if that is better:
    the observation has the details, and its own author, time and trust class.
    """
    summary_of: dict[int, int] = {}

    @cache
    def text_of(number: int) -> str:
        document = cast(Observation, results[number].document)
        return plain(prose(document)[:SCAN_CHARS] or headline(document))

    for number, result in enumerate(results):
        if isinstance(result.document, Summary) and (quoted := _quoted(result, results, text_of)) is not None:
            summary_of[quoted] = number
    if not summary_of:
        return list(results)

    def best_rank(number: int) -> int:
        return min(number, summary_of.get(number, number))

    def joined(number: int) -> Recalled:
        result, summary = results[number], summary_of.get(number)
        if summary is None:
            return result
        hit = replace(result.hit, score=results[best_rank(number)].hit.score)
        return result._replace(hit=hit, repeats=[*result.repeats, results[summary].hit.id])

    left = {*range(len(results))}.difference(summary_of.values())
    return [joined(number) for number in sorted(left, key=best_rank)]


def _quoted(summary: Recalled, results: Sequence[Recalled], text_of: Callable[[int], str]) -> int | None:
    """The first observation that a summary quotes; None unless all its sentences that have a word of the question (if
    none has, all its sentences) are in observations among the results."""
    assert isinstance(summary.document, Summary)
    of_session, speakers = list[int](), {"User"}
    for number, document in enumerate(result.document for result in results):
        if isinstance(document, Observation) and document.session == summary.document.session:
            of_session.append(number)
            speakers.add(document.agent_id)
    if not of_session:
        return None

    def first_with(sentence: str) -> int | None:
        speaker, _, rest = sentence.partition(": ")
        phrase = plain(rest if speaker in speakers else sentence)
        return next((number for number in of_session if has_words(text_of(number), phrase)), None)

    sentences = [piece for line in _text(summary.document).splitlines() for piece in pieces(line)]
    words = {*summary.hit.terms}
    quoted = [first_with(it) for it in [it for it in sentences if not words.isdisjoint(terms(it))] or sentences]
    return None if None in quoted else min((number for number in quoted if number is not None), default=None)


NEWEST_AMONG = 5
"""First results that `newest_first` orders. Of the questions for a present value in the coding life, 44 % had a
replaced value first, 11 % have with 5 results, 6 % with 8, which costs a point of recall at 5 on BEAM."""
ANNOUNCED, ANOTHER_VALUE = (0.5, 0.2), (0.6, 0.3)
"""Share of the question's words in the older statement that the newer has too, and of all words of the question: for
one that announces a change, and for one that only has other numbers. On seven sets, a replaced value comes first in 6
to 52 % of the questions for a present one, and in 17 to 62 % without announcements; LoCoMo's recall@1 falls from 46.6
to 45.7."""
CLOSE = 0.15
"""Share of an older result's confidence that a newer one has at least. Without it, a note that has one word of the
question and "instead of" in it comes first. No set has more replaced values first with it, and recall@1 is one or two
points higher on five sets of eight; of 300 questions for announced changes, 21 % have the older one first, not 20."""
_VALUE = re.compile(r"\w*\d(?:[\w.,:/-]*\w)?%?")


def newest_first(results: Sequence[Recalled], query: str) -> list[Recalled]:
    """The results; among the first, a newer one comes before an older one that it probably replaces, which names it.

    It does unless the question is about the past, if both say the same of it, and the newer announces a change or has
    other numbers, and they are not of the same session. Scores and confidences stay in order: the newer result gets
    those of the result it passes.
    """
    if not results or asks_past(query):
        return list(results)
    words = frozenset(results[0].hit.terms or terms(query))
    first = [result._replace(snippet=snippet(_text(result.document), [*words])) for result in results[:NEWEST_AMONG]]
    statements = {result.hit.id: _Statement(result, words) for result in first}
    ordered: list[Recalled] = []
    for result in first:
        newer = statements[result.hit.id]
        replaced = [rank for rank, older in enumerate(ordered) if newer.replaces(statements[older.hit.id])]
        for rank in replaced:
            ordered[rank] = ordered[rank]._replace(superseded_by=result.hit.id)
        by = next((better.hit.id for better in ordered if statements[better.hit.id].replaces(newer)), "")
        ordered.insert(replaced[0] if replaced else len(ordered), result._replace(superseded_by=by))
    for rank, (result, passed) in enumerate(zip(ordered, first, strict=True)):
        if result.hit.id != passed.hit.id:
            hit = replace(result.hit, score=passed.hit.score, confidence=passed.hit.confidence)
            ordered[rank] = result._replace(hit=hit)
    return [*ordered, *results[NEWEST_AMONG:]]


class _Statement:
    """What a result says of a question; values and announcements are read when a comparison needs them."""

    def __init__(self, result: Recalled, question: frozenset[str]) -> None:
        self.occurred_at, self.session_id = in_view(result.document, ("occurred_at", "session_id"))
        self.text, self.confidence = (result.snippet or "").strip("…"), result.hit.confidence
        self.question_words, self.words = len(question), question.intersection(terms(self.text))

    @cached_property
    def values(self) -> frozenset[str]:
        return frozenset(_VALUE.findall(self.text.casefold()))

    @cached_property
    def announces(self) -> bool:
        """Whether it says that something is different now; a question does not: "have you moved to Berlin now?"."""
        return "?" not in self.text and announces(self.text)

    def replaces(self, older: "_Statement") -> bool:
        """Whether it is a newer statement about the same, which announces a change or has another value."""
        if self.occurred_at <= older.occurred_at or (self.session_id and self.session_id == older.session_id):
            return False
        if self.confidence is not None and self.confidence < CLOSE * (older.confidence or 0):
            return False
        if self._shares(older, *ANNOUNCED) and self.announces:
            return True
        return self._shares(older, *ANOTHER_VALUE) and bool(older.values) and not self.values <= older.values

    def _shares(self, older: "_Statement", of_older: float, of_question: float) -> bool:
        """Whether it has such shares of the question's words that the older one has, and of all."""
        least = max(1, of_older * len(older.words), of_question * self.question_words)
        return len(self.words & older.words) >= least


def _result(result: Recalled, words: Sequence[str], *, explain: bool) -> RecallResult:
    hit, document = result.hit, result.document
    content, narrative, session_id, agent_id, project, occurred_at, metadata, derived_from = in_view(document, _SHOWN)
    confirmed = document.reinforcements if isinstance(document, Lesson) else 0
    if isinstance(document, Memory):
        confirmed = document.confirmations
    return RecallResult(
        id=hit.id,
        kind=hit.kind,
        score=hit.score,
        title=visible(_title(document)),
        snippet=snippet(_text(document), hit.terms or words) if result.snippet is None else result.snippet,
        content=content or narrative or "",
        session_id=session_id or None,
        agent_id=agent_id or None,
        project=project,
        occurred_at=occurred_at,
        metadata=metadata or {},
        confidence=hit.confidence,
        derived_from=derived_from or [],
        confirmed=confirmed,
        repeats=result.repeats,
        corroborated_by=max(1, len(result.writers or ())),
        superseded_by=result.superseded_by,
        trust=document.lowest_trust if isinstance(document, Summary) else getattr(document, "trust", "agent_concluded"),
        explain=hit.explain if explain else None,
        valid_until=getattr(document, "valid_until", None),
    )


_SHOWN = ("content", "narrative", "session_id", "agent_id", "project", "occurred_at", "metadata", "derived_from")
_FILTERED = (
    "project", "projects", "agent_id", "session_id", "user_id", "kinds",
    "tags", "any_tags", "types", "files", "concepts",
)  # fmt: skip


def _text(document: Document) -> str:
    """What a document says, as far as a snippet looks; of a tool call also its input and output."""
    match document:
        case Observation():
            if text := prose(document):
                return text
            texts: list[str] = []
            room = SCANNED
            for text in texts_in(document.data):
                texts.append(text[:room])
                room -= len(texts[-1])
                if room <= 0:
                    break
            return searchable(texts) or document.narrative
        case Summary():
            return "\n".join([document.narrative, *document.decisions, *document.remaining])
        case Memory() | Lesson():
            return document.content
        case _:
            return ""


def _title(document: Document) -> str:
    match document:
        case Observation():
            return headline(document)
        case Memory() | Summary():
            return document.title
        case Lesson():
            return document.title or document.content.split("\n", 1)[0][:80]
        case _:
            return ""


logger = logging.getLogger(__name__)

WORDS_ONLY = "no embedder is configured: words only"
CACHED_QUERIES = 2_048
"""Query vectors kept: 3 MiB at 384 dimensions."""


class QueryVectors:
    """Embeds queries, each once while it is cached."""

    def __init__(self, index: IndexService) -> None:
        self._index = index
        self._thread = ThreadPoolExecutor(1, "query-embedding")
        self._cached: OrderedDict[tuple[str, str], NDArray[np.float32]] = OrderedDict()
        self.watch: Callable[[float, Exception | None], None] | None = None
        """Told of every query that is embedded: the seconds it took, and what went wrong."""

    @property
    def embedder(self) -> Embedder:
        """What embeds the queries: what embedded the documents of the index."""
        return self._index.embedder

    def close(self) -> None:
        """Give the embedding thread back."""
        self._thread.shutdown(wait=False)

    async def search(self, question: Question, allowed: Filter) -> tuple[list[Hit], list[str]]:
        """Search with the question's vector, unless it is lexical; and why there is no vector.

        Asks again when the index has changed to another model since. Raises what ReplicaService.search does.
        """
        if question.mode == "lexical":
            return await self._index.search(question, allowed), []
        while True:
            embedder = self.embedder
            vector, degraded = await self.vector_of(embedder, without_middle(question.text))
            try:
                requested = replace(question, vector=vector, model=embedder.model)
                return await self._index.search(requested, allowed), degraded
            except EmbedderMismatch:  # the index changed models while the query was embedded: embed it again
                continue

    async def vector_of(self, embedder: Embedder, query: str) -> tuple[NDArray[np.float32] | None, list[str]]:
        """The query's unit vector, or None and the reason."""
        if not embedder.dimensions:
            return None, [WORDS_ONLY]
        cached = self._cached.get((embedder.model, query))
        if cached is None:
            started = time.perf_counter()
            try:
                loop = asyncio.get_running_loop()
                attributes: Attributes = {
                    "gen_ai.operation.name": "embeddings",
                    "gen_ai.request.model": embedder.model,
                    "gen_ai.embeddings.dimension.count": embedder.dimensions,
                }
                with span(f"embeddings {embedder.model}", attributes):
                    rows = await loop.run_in_executor(self._thread, embed_questions, embedder, [query])
            except MnemologError as error:
                self._tell(started, error)
                logger.warning("the query could not be embedded: %s", error)
                # readers must not see a service's address or its answer
                reason = str(error) if isinstance(error, ModelUnavailable) else error.code
                return None, [f"the query could not be embedded ({reason}): words only"]
            self._tell(started)
            cached = np.asarray(rows[0], np.float32)
            self._cached[embedder.model, query] = cached
            if len(self._cached) > CACHED_QUERIES:
                self._cached.popitem(last=False)
        else:
            self._cached.move_to_end((embedder.model, query))
        return cached, []

    def _tell(self, started: float, error: Exception | None = None) -> None:
        if self.watch is not None:
            self.watch(time.perf_counter() - started, error)
