"""Consolidation: memories of what many observations, sessions or memories have in common, by agentmemory's rules.

Guarantee: extractive: every sentence is quoted, and names the sources that say it. The same members give the same text,
so consolidating again changes nothing; one topic is one concept, so new members give a new version of the same memory.
"""

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import nlargest
from itertools import chain, pairwise
from typing import Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from ingest.commands.decide import Caller, CondenseMemories, Remember, ReviseMemory
from ingest.events.envelope import Trust
from ingest.ids import DocumentId
from ingest.log.position import Position, partition_of, project_route
from projections.condensing.summaries import PROJECT_MEMORIES, Digest, digest_of, fingerprint, is_made, newest, rejected
from projections.nouns.access import Reader, may_read
from projections.nouns.memory import (
    CONSOLIDATED,
    EPISODIC,
    FACT,
    PROCEDURE,
    TITLE_CHARS,
    Memory,
    episodic_pair,
    memories,
)
from projections.nouns.observation import Observation, timeline
from projections.nouns.rows import derived
from projections.nouns.session import Summary, summaries, untold
from projections.nouns.trust import is_condensed, is_stated, lowest
from projections.operations.current import Current, Writing
from projections.queries.profile import about, run_of, shell_line, talks, written
from projections.text.accounts import account, in_time, is_call_alone
from projections.text.claims import (
    NUMBER,
    SAME_CLAIM,
    Claim,
    claim_groups,
    claims_in,
    is_claim,
    replaced,
    says,
    stands_alone,
)
from projections.text.sentences import (
    ALIKE,
    alike_groups,
    best,
    centrality,
    distinct,
    fitting,
    leading,
    pieces,
    shortened,
    stated,
    statements,
    term_set,
)
from projections.text.similarity import SIMILAR_ABOVE
from projections.text.words import CODE_SPAN

MIN_IMPORTANCE = 5
FEWEST_MEMBERS = 3
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
_ADDRESSED = re.compile(
    r"\b(?:you|your|yours|please)\b|\A\W*(?:yes|no|sure|thanks?),|\A(?:left|(?:still )?open|to ?do|next):",
    re.IGNORECASE,
)
"""Said to somebody, or of what is left to do."""
_REPORTED = re.compile(r"(?:[^:]{1,30}: )?(?:Now|[A-Z]\w+ed) ")
"""How an agent begins to tell what it does, or did."""
_CASE = re.compile(r"\b(?=[A-Z0-9]*[A-Z])[A-Z0-9]{5,}\b|\b[A-Z][a-z]+ [A-Z][a-z]+\b|[$€£] ?\d|\b\w+@\w+\.\w+|_\d{3,}")
"""An id, a person's name, an amount: what tells one customer's case from another's."""
_SHARED_TERMS, _SHARED = 3, 0.3
"""How many terms two claims share that tell the same, and which part of all their terms."""
_PLAIN_WORD = re.compile(r"(?<![\w./-])[^\W\d_]{4,}(?![\w/-]|\.\w)")
_IN_EVERY_TEXT = term_set(
    "tests pass fail fixed build lint linter issues clean works success complete done zero changes after before about"
    " only each other same more most than then also just still when where while with without into over again once until"
    " since because through their there these those this that which would could should will have been were does using"
    " unfortunately however decided decision agreed every"
)
"""What agents report of every session, and words that have no meaning alone."""
_USUAL = 0.8
"""Share of the sessions with a request that run a command which belongs to it."""
_OF_REQUESTS = term_set("please can could would you let do make run test tests new next now again need want time")
"""Terms that do not tell one request from another."""
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
    observations: Iterable[Observation], max_topics: int = TOPICS, top: int = 8, without: Collection[str] = ()
) -> list[Topic]:
    """Returns what several important observations claim of a topic, the most frequent topic first, ties by concept.

    At least FEWEST_MEMBERS of them claim something of it; the `top` most important, the newest of equals, are quoted. A
    topic most of whose lines are under another topic already is left out, and so is one that only one is quoted for.
    What several sessions tell follows, if no topic says it. No claim in `without` counts.
    """
    members = sorted((item for item in observations if item.importance >= MIN_IMPORTANCE), key=in_time)
    is_case = case_check(members)

    def claims(observation: Observation) -> list[str]:
        if not is_stated(observation):
            return []
        return [claim for claim in claims_of(observation) if claim not in without and not is_case(observation, claim)]

    candidates = sorted(about(members, claims).items(), key=lambda item: (-len(item[1]), item[0]))
    by_agents = told_by_agents(members, without)
    for group in stories([(members[index].session, claim) for index, claim in by_agents]):
        alike = [by_agents[number] for number in group]
        candidates.append((named_by([claim for _, claim in alike]), {index: [claim] for index, claim in alike}))
    topics: list[Topic] = []
    quoted: set[str] = set()
    for concept, sentences in candidates:
        if len(sentences) < FEWEST_MEMBERS or any(topic.concept == concept for topic in topics):
            continue
        # the most important, the newest of equals; in time order
        best_members = nlargest(top, [(members[index].importance, index) for index in sentences])
        indexes = sorted(index for _, index in best_members)
        topic = _topic(concept, [members[index] for index in indexes], [sentences[index] for index in indexes])
        lines = topic.content.splitlines()[1:]
        if len(topic.sources) > 1 and 2 * len(quoted.intersection(lines)) <= len(lines):
            quoted.update(lines)
            topics.append(topic)
            if len(topics) == max_topics:
                break
    return topics


def facts_of(summaries: Sequence[Digest]) -> list[Fact]:
    """Returns what holds across sessions: what at least two digests state, and what was decided; the surest first.

    `summaries` are in time order; the newest 20 count, fewer than five give nothing. A fact is in its newest wording.
    """
    if len(summaries) < FEWEST_SESSIONS:
        return []
    claims: list[tuple[int, bool, str]] = []
    for index in range(len(summaries) - 1, max(-1, len(summaries) - 1 - NEWEST_SESSIONS), -1):
        summary = summaries[index]
        decided = [claim for decision in summary.decisions for claim in _facts_in(decision)]
        claims += [(index, bool(summary.files) or not _CASE.search(claim), claim) for claim in decided]
        claims += [(index, False, claim) for claim in _facts_in(untold(summary.narrative, summary.told_by_tools))]
    ranked: list[Fact] = []
    for group in claim_groups([text for *_, text in claims], SAME_CLAIM):
        newest_wording = claims[group[0]][2]
        sessions = sorted({claims[index][0] for index in group})
        decided = any(claims[index][1] for index in group)
        if len(term_set(newest_wording)) >= _FEWEST_TERMS and (len(sessions) > 1 or decided):
            ranked.append(Fact(newest_wording, sessions))
    return sorted(ranked, key=lambda fact: -len(fact.sources))[:FACTS]


def procedures_of(memories: Iterable[Memory]) -> list[Procedure]:
    """Returns how things are done, from procedural and pattern memories that alike were said in at least two sessions.

    Superseded versions belong into `memories`: saying a pattern again supersedes it, and the old version is the proof
    that another session said it. A group without a latest version gives nothing. The most often said first.
    """
    newest_first = sorted(
        (memory for memory in memories if memory.memory_type == "procedural" or PATTERN in map(str.lower, memory.tags)),
        key=lambda memory: Position.parse(memory.position),
        reverse=True,
    )
    ranked: list[tuple[int, Procedure]] = []
    for group in alike_groups([term_set(memory.content) for memory in newest_first], SIMILAR_ABOVE):
        members = [newest_first[index] for index in group]
        sessions = {(memory.project, memory.session_id) for memory in members if memory.session_id}
        latest = next((memory for memory in members if memory.is_latest), None)
        if len(sessions) > 1 and latest is not None:
            # its list items as steps, else its sentences; its title is no step unless it is all there is
            name = shortened(latest.title or latest.content, TITLE_CHARS)
            items = [shortened(match["step"], _LINE_CHARS) for match in _STEP.finditer(latest.content)]
            sentences = items if len(items) > 1 else statements(latest.content)
            steps = [step for step in sentences if step != name] or [shortened(latest.content, _LINE_CHARS)]
            ranked.append((len(sessions), Procedure(name, steps[:STEPS], [memory.id for memory in members])))
    return [procedure for _, procedure in sorted(ranked, key=lambda item: -item[0])]


def routines_of(observations: Iterable[Observation]) -> list[Procedure]:
    """Returns requests with which at least FEWEST_MEMBERS sessions began, alike, and the commands that nearly all of
    them then ran and that passed; the most frequent request first. The sources are all these requests and runs.

    Requests in other words are alike if half of each is the same name of a command: "cut a release", `make release`.
    """
    of_session: defaultdict[str, list[Observation]] = defaultdict(list)
    for observation in sorted(observations, key=in_time):
        of_session[observation.session].append(observation)
    begun: list[tuple[Observation, list[tuple[tuple[str, ...], Observation]]]] = []
    for items in of_session.values():
        requests = [item for item in items if item.turn == "user"]
        calls = ((run_of(0, item), item) for item in items if _is_agents_call(item))
        passed = [((*run.commands,), item) for run, item in calls if run is not None and not run.reason]
        begun += [(first, passed) for first in requests[:1] if is_stated(first)]
    in_commands = term_set(" ".join(chain(*(commands for _, passed in begun for commands, _ in passed)))) - _OF_REQUESTS
    requested = [term_set(NUMBER.sub("", account(first))) for first, _ in begun]
    requested = [words - _OF_REQUESTS or words for words in requested]
    requested = [words & in_commands if 2 * len(words & in_commands) >= len(words) else words for words in requested]
    routines: list[tuple[int, Procedure]] = []
    for group in alike_groups(requested, ALIKE):
        runs: defaultdict[tuple[str, ...], dict[int, Observation]] = defaultdict(dict)
        for index in group:
            for commands, item in begun[index][1]:
                runs[commands][index] = item
        usual = [ran for ran in runs.values() if len(ran) >= max(FEWEST_MEMBERS, _USUAL * len(group))][:STEPS]
        if usual:
            evidence = [begun[index][0] for index in group] + [item for ran in usual for item in ran.values()]
            name = shortened(account(begun[group[0]][0]), TITLE_CHARS)
            steps = [account(ran[max(ran)]) for ran in usual]
            routines.append((len(group), Procedure(name, steps, [item.id for item in evidence])))
    return [procedure for _, procedure in sorted(routines, key=lambda item: -item[0])]


def _is_agents_call(observation: Observation) -> bool:
    """Whether a shell was called, and its `account` says nothing that a tool said."""
    statement, is_text = account(observation), not observation.data and observation.role != "tool_result"
    is_call = is_call_alone(statement) or (is_text and "\n" not in statement)
    is_agents = is_stated(observation) or (observation.trust == "tool_output" and not observation.quarantined)
    return bool(shell_line(observation)) and is_call and is_agents


def case_check(observations: Sequence[Observation]) -> Callable[[Observation, str], bool]:
    """Returns whether a claim is about one person's case: it names one, and in its session people only talked."""
    talked = talks(observations)
    return lambda item, claim: item.session in talked and _CASE.search(claim) is not None


def stories(claims: Sequence[tuple[str, str]]) -> list[list[int]]:
    """Returns the indices of claims that tell the same in other words, in at least FEWEST_MEMBERS sessions: groups, the
    one of most sessions first, each led by the claim that the others resemble, whose numbers they state, too. `claims`
    are a session and a text.
    """
    words_of = (_PLAIN_WORD.findall(CODE_SPAN.sub(" ", text)) for _, text in claims)
    term_sets = [term_set(" ".join(words)) - _IN_EVERY_TEXT for words in words_of]
    numbers = [frozenset(NUMBER.findall(text)) for _, text in claims]
    groups: list[list[int]] = []
    for leader, *others in alike_groups(term_sets, _SHARED):
        agreeing = (other for other in others if numbers[leader] <= numbers[other])
        alike = [other for other in agreeing if len(term_sets[leader] & term_sets[other]) >= _SHARED_TERMS]
        if len({claims[index][0] for index in (leader, *alike)}) >= FEWEST_MEMBERS:
            groups.append([leader, *alike])
    return sorted(groups, key=lambda group: -len({claims[index][0] for index in group}))


def told_by_agents(observations: Sequence[Observation], without: Collection[str] = ()) -> list[tuple[int, str]]:
    """Returns what agents claim in these observations, with its index; nothing that is about one person's case, and no
    claim in `without`.
    """
    is_case = case_check(observations)
    return [
        (index, claim)
        for index, item in enumerate(observations)
        if item.turn == "agent" and not item.data.get("tool_name") and is_stated(item)
        if item.importance >= MIN_IMPORTANCE
        for claim in tellings(account(item))
        if claim not in without and not is_case(item, claim)
    ]


def replaced_claims(documents: Iterable[Observation | Summary | Memory]) -> set[str]:
    """Returns the claims of documents that a later one of them replaces."""
    claims = list[str]()
    for document in sorted(documents, key=lambda document: (document.occurred_at, Position.parse(document.position))):
        if not is_stated(document):
            continue
        if isinstance(document, Summary):  # it repeats what was stated earlier
            lines = claims_in("\n".join(document.decisions))
            claims += [claim for claim in lines if claim not in claims]
        else:
            text = document.content if isinstance(document, Memory) else account(document)
            claims += [*claims_in(text), *tellings(text)]
    return replaced(claims)


def tellings(text: str) -> list[str]:
    """Returns what a text claims, each claim with the sentences that lean on it; no announcement of the next step."""
    claims = (claim for claim in stated(text, _LINE_CHARS) if is_claim(claim) and stands_alone(claim))
    return [claim for claim in claims if not _ADDRESSED.search(claim) and not _REPORTED.match(claim)]


def named_by(texts: Sequence[str]) -> str:
    """Returns the two words of the first text, side by side, that most of the texts share; else the one that do."""
    spread = Counter(term for text in texts for term in term_set(text) - _IN_EVERY_TEXT)
    words = [word.strip(".,;:!?()") for word in CODE_SPAN.sub(" ", texts[0]).lower().split()]
    shared = [bool(_PLAIN_WORD.fullmatch(word)) * sum(map(spread.__getitem__, term_set(word))) for word in words]
    pairs = [min(pair) for pair in pairwise(shared)]
    if not any(pairs):
        return words[shared.index(max(shared))]
    return " ".join(words[pairs.index(max(pairs)) :][:2])


def claims_of(observation: Observation) -> list[str]:
    """Returns the claims of an observation that are short enough to be quoted."""
    return [claim for claim in _facts_in(account(observation)) if len(claim) <= _LINE_CHARS]


def _facts_in(text: str) -> list[str]:
    """The claims that address no person: a statement to one says nothing about the project."""
    return [claim for claim in claims_in(text) if _ADDRESSED.search(claim) is None]


def _topic(concept: str, members: Sequence[Observation], sentences: Sequence[Sequence[str]]) -> Topic:
    """The memory about a concept: its title, then the most central sentence of each member, once."""
    title = shortened(f"About {written(concept, chain(*sentences))}", TITLE_CHARS)
    leads = [lead for _, lead in leading(sentences)]
    groups = claim_groups(leads, SAME_CLAIM)
    content = "\n".join(fitting([title, *(f"- {leads[group[0]]}" for group in groups)], CONTENT_CHARS, "\n"))
    quoted = [index for group in groups if says(content, leads[group[0]]) for index in group]
    agents = {member.session for member in members if member.turn == "agent"}
    is_agreed = len(agents) > 1  # in several sessions: nearly the same words are enough
    stating = sorted(index for index in quoted if is_agreed or says(content, leads[index]))
    return Topic(concept, title, content, [members[index].id for index in stating])


THRESHOLD = 100
"""Episodic memories of an agent and user that need no summary; one more does (memex's default)."""
BATCH = 50
"""The oldest memories condensed at a time (memex's default)."""
MAX_SENTENCES = 5
_SHORT_PIECE = 20
"""Characters; a piece no longer than this is no sentence."""
_FALLBACK_MEMORIES = 5
"""Joined as they are when no memory has a sentence."""

_WORD = re.compile(r"\b[a-zA-Z]{3,}\b")


def summarise(texts: Sequence[str], max_sentences: int = MAX_SENTENCES) -> str:
    """Returns the most central sentences of the memories, in their order, joined by spaces.

    When no memory has a sentence longer than 20 characters it is the first five memories themselves, joined by ". ".
    """
    sentences = [piece for text in texts for piece in pieces(text) if len(piece) > _SHORT_PIECE]
    if not sentences:
        return ". ".join(texts[:_FALLBACK_MEMORIES])
    words = [[word.lower() for word in _WORD.findall(sentence)] for sentence in sentences]
    selected = distinct(list(map(frozenset, words)), ALIKE)
    step = -(-len(sentences) // BATCH)  # comparing all of them with each other would take too long
    different = claim_groups(sentences[::step], ALIKE) if len(selected) < max_sentences else []
    if len(different) > len(selected):  # alike but for a number or a name: some of them, from the first to the last
        last, most = len(different) - 1, min(len(different), max_sentences) - 1
        selected = [step * different[number * last // most][0] for number in range(most + 1)]
    if len(selected) > max_sentences:
        central = best(centrality([words[index] for index in selected]), max_sentences)
        selected = [selected[rank] for rank in central]
    return " ".join(sentences[index] for index in selected)


def summary_text(count: int, summary: str) -> str:
    """Returns the content of the memory that replaces `count` others."""
    return f"[Summary of {count} memories] {summary}"


PROJECT_OBSERVATIONS = 1_000
SUMMARIES_READ = 20
Part = Literal["memories", "facts", "procedures"]
PARTS: tuple[Part, ...] = get_args(Part)
"""What one consolidation makes."""


class Consolidated(Struct, frozen=True, kw_only=True):
    """How much was consolidated: memories about concepts, facts, procedures; and of how much."""

    memories: int
    facts: int
    procedures: int
    observations: int
    summaries: int
    position: str


async def consolidate(
    current: Current,
    reader: Reader,
    project: str,
    caller: Caller,
    *,
    fewest_observations: int = 10,
    parts: Collection[Part] = PARTS,
) -> Consolidated:
    """Memories about what a project's observations have in common, facts of its summaries, its procedures."""
    await current.settle()
    documents, tenant = current.documents, reader.tenant
    observations = await newest(documents, timeline(tenant, project), Observation, PROJECT_OBSERVATIONS, reader)
    recent = await newest(documents, summaries(tenant, project), Summary, SUMMARIES_READ, reader)
    in_time_order = sorted(recent, key=lambda summary: (summary.occurred_at, Position.parse(summary.position)))
    in_time_order = [summary for summary in in_time_order if is_stated(summary)]
    stored = await newest(documents, memories(tenant, project), Memory, PROJECT_MEMORIES, reader)
    public = [memory for memory in stored if memory.visibility == "public" and is_stated(memory)]
    important = [observation for observation in observations if observation.importance >= MIN_IMPORTANCE]
    hidden = await rejected(documents, memories(tenant, project), Memory, PROJECT_MEMORIES, reader)
    hidden_lines = [Claim.of(line) for memory in hidden for line in memory.content.splitlines()]
    existing = await _consolidated(current, public, [*important, *in_time_order], reader, project)
    commands: dict[Part, list[Remember]] = {part: [] for part in PARTS}
    written = [memory for memory in public if memory.is_latest and not is_made(memory)]
    without = await asyncio.to_thread(replaced_claims, [*observations, *in_time_order, *written])
    stated = [Claim.of(memory.content) for memory in written]
    if "memories" in parts and len(important) >= fewest_observations:
        commands["memories"] = await asyncio.to_thread(_topic_commands, important, stated, without)
    if "facts" in parts:
        commands["facts"] = _fact_commands(in_time_order, stated, without)
    if "procedures" in parts:
        routines = await asyncio.to_thread(routines_of, observations)
        commands["procedures"] = _procedure_commands(public, routines)
    times = {str(document.id): document.occurred_at for document in (*important, *in_time_order, *stored)}
    writing, changed = Writing(current, caller), 0
    for part in PARTS:
        for command in commands[part]:
            if all(any(map(Claim.of(line).repeats, hidden_lines)) for line in command.content.splitlines()):
                continue
            when = max((times[name] for name in command.derived_from if name in times), default=None)
            command = replace(command, project=project, keep_duplicates=True, occurred_at=when)
            changed += await _write(command, existing, writing) and part == "memories"
    return Consolidated(
        memories=changed,
        facts=len(commands["facts"]),
        procedures=len(commands["procedures"]),
        observations=len(important),
        summaries=len(in_time_order),
        position=writing.position,
    )


async def _consolidated(
    current: Current,
    newest_memories: Sequence[Memory],
    sources: Sequence[Observation | Summary],
    reader: Reader,
    project: str,
) -> dict[DocumentId, Memory]:
    """The project's consolidated memories that this may revise: the newest, and those made of these sources.

    So no memory that an agent wrote is revised.
    """
    documents = current.documents
    home = [partition_of(project_route(reader.tenant, project), documents.partitions)]
    names = await documents.members_of([derived(source.id) for source in sources], home)
    located = [row.document for row in await documents.find_all(list(dict.fromkeys(names)))]
    candidates = [row for row in (*newest_memories, *located) if isinstance(row, Memory) and may_read(row, reader)]
    return {
        memory.id: memory
        for memory in candidates
        if memory.is_latest and memory.visibility == "public" and memory.project == project and is_made(memory)
    }


def _topic_commands(
    observations: Sequence[Observation], stated: Sequence[Claim], without: Collection[str]
) -> list[Remember]:
    """One memory a topic of which memories do not state every line; a new version of the one about the same concept."""
    trusts: dict[str, Trust] = {observation.id: observation.trust for observation in observations}
    return [
        Remember(
            event_id=f"consolidated:{fingerprint(topic.content, *sorted(topic.sources))}",
            content=topic.content,
            title=topic.title,
            tags=[CONSOLIDATED],
            concepts=[topic.concept],
            derived_from=topic.sources,
            trust=lowest(trusts[name] for name in topic.sources),
        )
        for topic in find_topics(observations, without=without)
        if not all(any(map(Claim.of(line).repeats, stated)) for line in topic.content.splitlines()[1:])
    ]


def _fact_commands(
    in_time_order: Sequence[Summary], stated: Sequence[Claim], without: Collection[str]
) -> list[Remember]:
    """One memory a fact that no memory states already; a new version of the one that states nearly the same."""
    commands: list[Remember] = []
    for fact in facts_of([digest_of(summary) for summary in in_time_order]):
        claim, sources = Claim.of(fact.content), [str(in_time_order[index].id) for index in fact.sources]
        if fact.content not in without and not any(map(claim.repeats, stated)):
            event_id = f"fact:{fingerprint(fact.content, *sorted(sources))}"
            tags, trust = [FACT, CONSOLIDATED], lowest(in_time_order[index].trust for index in fact.sources)
            commands.append(
                Remember(event_id=event_id, content=fact.content, tags=tags, derived_from=sources, trust=trust)
            )
    return commands


def _procedure_commands(public: Sequence[Memory], routines: Sequence[Procedure]) -> list[Remember]:
    """One memory a procedure; a new version of the one of the same name."""
    trusts: dict[str, Trust] = {memory.id: memory.trust for memory in public}
    return [
        Remember(
            event_id=f"procedure:{fingerprint(procedure.name, *procedure.steps, *sorted(procedure.sources))}",
            content="\n".join([procedure.name, *(f"{n}. {step}" for n, step in enumerate(procedure.steps, 1))]),
            title=procedure.name[:80],
            memory_type="procedural",
            tags=[PROCEDURE, CONSOLIDATED],
            derived_from=procedure.sources,
            trust=lowest(trusts.get(name, "agent_concluded") for name in procedure.sources),
        )
        for procedure in [*procedures_of([memory for memory in public if not is_made(memory)]), *routines]
    ]


def _is_same(command: Remember, memory: Memory) -> bool:
    """Whether a consolidated memory is about the same as a new one.

    Concept, claim or name decide, never by how alike texts are as a whole: two topics may have nearly the same
    words.
    """
    if sorted(memory.tags) != sorted(command.tags):
        return False
    if FACT in command.tags:
        is_said = Claim.of(command.content).is_said_by(Claim.of(memory.content), SAME_CLAIM)
        return memory.content == command.content or is_said or bool(replaced((memory.content, command.content)))
    return memory.title == command.title if PROCEDURE in command.tags else memory.concepts[:1] == command.concepts


async def _write(command: Remember, existing: dict[DocumentId, Memory], writing: Writing) -> bool:
    """Write a memory, as the next version of the one that it replaces, if any; False if that says it all already.

    That one leaves `existing`, so a run makes at most one new version of a memory.
    """
    same = [memory for memory in existing.values() if _is_same(command, memory)]
    old = min(same, key=lambda memory: memory.content != command.content, default=None)
    if old is None:
        await writing.give(command)
        return True
    del existing[old.id]
    if old.content == command.content and sorted(old.derived_from) == sorted(command.derived_from):
        return False
    revision = ReviseMemory(
        event_id=f"{command.event_id}:{old.id}",  # its text may return to what an older version said
        project=command.project,
        occurred_at=command.occurred_at,
        memory=old.id,
        content=command.content,
        memory_type=old.memory_type,
        purpose=old.purpose,
        title=command.title,
        tags=old.tags,
        concepts=old.concepts,
        importance=old.importance,
        owner=old.owner,
        keep_duplicates=True,
        derived_from=command.derived_from,
        trust=command.trust,
    )
    await writing.give(revision)
    return True


Audience: TypeAlias = tuple[str, str, str, tuple[str, ...]]
"""Project, visibility, owner and whom a memory is shared with."""


async def condense_pair(
    current: Current,
    partition: int,
    tenant: str,
    agent: str,
    user: str,
    *,
    threshold: int = THRESHOLD,
    batch: int = BATCH,
) -> int:
    """Condense the oldest episodic memories about one agent and user, when there are more than `threshold`.

    Returns how many were condensed. Two that do this at once make one summary: the event id comes from the
    originals, and the fold passes over a summary whose originals are not current any more.
    """
    documents = current.documents
    prefix = episodic_pair(tenant, agent, user).encode()
    low, high = b"[" + prefix, b"(" + prefix + b"\xff"
    # counted and read at once: a summary of another worker may be folded at any moment
    count, oldest = await documents.first(EPISODIC, partition, low, high, batch)
    if count <= threshold:
        return 0
    names = [DocumentId(member.rpartition("|")[2]) for member in oldest]
    groups: dict[Audience, list[Memory]] = {}
    for memory in await documents.get([(partition, name) for name in names]):
        if isinstance(memory, Memory) and memory.is_latest and is_condensed(memory):
            audience = memory.project, memory.visibility, memory.owner, tuple(sorted(memory.shared_with))
            groups.setdefault(audience, []).append(memory)
    # the largest group with the same readers, of equally large ones the oldest: a lone memory holds up no others
    alike = max(groups.values(), key=len, default=list[Memory]())
    if len(alike) < 2:
        return 0
    summary = await asyncio.to_thread(summarise, [memory.content for memory in alike])
    first, originals = alike[0], [memory.id for memory in alike]
    command = CondenseMemories(
        event_id=f"condense:{fingerprint(*originals)}",
        project=first.project,
        agent_id=agent,
        user_id=user,
        occurred_at=max(memory.occurred_at for memory in alike),
        originals=list(originals),
        content=summary_text(len(alike), summary),
        visibility=first.visibility,
        shared_with=first.shared_with,
        owner=first.owner,
        trust=lowest(memory.trust for memory in alike),
    )
    await current.give(command, Caller(tenant, "condense", agent))
    return len(alike)
