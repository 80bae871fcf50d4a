"""agentmemory: an export object, or what its SQLite file has, as rows; and what each row says. Pure.

Rows come in an order that leaves everything as it is there: sessions, what was observed in them, their summaries, that
they are over; then memories, a version after the one it follows, and what refers to others last.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, cast, get_args

from api.dialects.agentmemory.records import SOURCES_BYTES, STRENGTH, classified, kind_of, pairs, without_empty
from api.hook_observations import UNKNOWN_PROJECT, hook_observation
from api.importing import sessions
from api.importing.mapping import (
    NAME_CHARS,
    ImportRow,
    Mapped,
    Record,
    Step,
    as_list,
    as_object,
    names,
    needed,
    number,
    objects,
    text,
    texts,
    when,
    when_given,
    whole,
)
from api.importing.source import (
    MAX_ITEMS,
    ImportRequest,
    RestServer,
    Source,
    Unusable,
    WholeSource,
    decoded,
    document,
    fingerprint_of,
    is_sqlite,
    is_url,
    newer,
)
from api.importing.sql import Database, Sqlite
from ingest.commands.decide import (
    AnyCommand,
    CondenseMemories,
    LinkCommit,
    RecordLesson,
    ReinforceLesson,
    Relate,
    Remember,
    ReviseMemory,
    SetSlot,
    WriteAction,
)
from ingest.errors import CommandRejected
from ingest.ids import document_id, imported_event_id
from ingest.kinds import ACTION, MEMORY, OBSERVATION
from ingest.log.position import project_route, session_route
from ingest.nouns.action import ActionEdge, EdgeType
from ingest.nouns.command import EVERY_PROJECT
from ingest.nouns.observation import ObservationCompressed
from projections.nouns.action import BLOCKED
from projections.nouns.document import Document
from projections.nouns.memory import CONSOLIDATED, FACT, PROCEDURE
from projections.text.compression import CONFIDENCE, compress
from projections.text.similarity import statement_key, states_the_same

SYSTEM = "agentmemory"
LESSON, SLOT = "lesson", "slot"
FACT_ROW, PROCEDURE_ROW, INSIGHT = "fact", "procedure", "insight"
SESSION, OBSERVATION_ROW, SUMMARY, END = "session", "observation", "summary", "session end"
MEMORY_ROW, ACTION_ROW, RELATION = "memory", "action", "relation"
LAST = (0, 9, 29)
"""The newest version whose exports are known."""
_LISTS = {
    LESSON: "lessons", SLOT: "slots", ACTION_ROW: "actions", RELATION: "relations", FACT_ROW: "semanticMemories",
    PROCEDURE_ROW: "proceduralMemories", INSIGHT: "insights",
}  # fmt: skip
"""Lists of an export by the kind of their rows, in the order in which they are imported."""
_SCOPES = {
    "sessions": "mem:sessions", "memories": "mem:memories", "summaries": "mem:summaries", "lessons": "mem:lessons",
    "slots": "mem:slots", "relations": "mem:relations", "actions": "mem:actions", "actionEdges": "mem:action-edges",
    "semanticMemories": "mem:semantic", "proceduralMemories": "mem:procedural", "insights": "mem:insights",
}  # fmt: skip
"""Lists that are imported, and their scopes in a store. Others are made of these, or have no counterpart here."""
_MEMORY_ID = "agentmemory_id"
"""Metadata that keeps the id a memory had."""
_COUNTS = ("confidence", "strength", "frequency", "accessCount", "lastAccessedAt", "updatedAt")
"""What a fact or a procedure has beside its text; the metadata keeps it."""


class Export:
    """An export object, and where the things in it will be here. `export` may be a page or a whole one.

    Raises CommandRejected for anything else.
    """

    def __init__(self, export: Mapping[str, Any], tenant: str) -> None:
        if not isinstance(export.get("sessions"), list) or not isinstance(export.get("memories"), list):
            raise CommandRejected("this is no export of agentmemory: it has no lists `sessions` and `memories`")
        self._export, self.tenant = export, tenant
        self.own: dict[str, Document] = {}
        """The rows that are documents here already, under the names that they have: references keep these."""
        self._sessions = self._by_id("sessions")
        observed = as_object(export.get("observations")).items()
        self._observed = {name: cast("list[Any]", rows) for name, rows in observed if isinstance(rows, list)}
        self._nameless = len(export["sessions"]) - len(self._sessions)
        for name in self._observed.keys() - self._sessions.keys():
            self._sessions[name] = unlisted(name, self._observed[name])
        self._places = {
            text(record, "id"): (text(record, "project") or project_of(self._sessions[name]), name)
            for name in self._observed
            for record in objects(self._observed[name])
        }
        self._memories, self._actions = self._by_id("memories"), self._by_id("actions")
        self._edges: dict[str, list[Record]] = {}
        for edge in objects(export.get("actionEdges")):
            self._edges.setdefault(text(edge, "sourceActionId"), []).append(edge)
        self._others = sorted(
            name for name in export if name != "observations" and name not in _SCOPES and as_list(export[name])
        )
        self._superseded = {name for memory in self._memories.values() for name in follows(memory)}
        self._mappings: dict[str, Callable[[ImportRow], Mapped]] = {
            SESSION: self._session, OBSERVATION_ROW: self._observation, SUMMARY: self._summary, END: self._end,
            MEMORY_ROW: self._memory, LESSON: lambda row: lesson(row, tenant), SLOT: slot, ACTION_ROW: self._action,
            RELATION: self._relation, FACT_ROW: derived, PROCEDURE_ROW: derived,
            INSIGHT: lambda row: lesson(row, tenant),
        }  # fmt: skip

    def _by_id(self, field: str) -> dict[str, Record]:
        return {text(record, "id"): record for record in objects(self._export.get(field)) if text(record, "id")}

    def rows(self) -> Iterator[ImportRow]:
        """Every row, in an order that is the same every time."""
        export = self._export
        in_order = sorted(self._sessions.items(), key=lambda item: (text(item[1], "startedAt"), item[0]))
        yield from (ImportRow(SESSION, f"number {index}", {}) for index in range(self._nameless))
        yield from (ImportRow(SESSION, name, session) for name, session in in_order)
        for name, _ in in_order:
            observed = enumerate(self._observed.get(name, []))
            rows = [row_of(OBSERVATION_ROW, value, f"{name} {index}", sessionId=name) for index, value in observed]
            yield from sorted(rows, key=lambda row: text(row.value, "timestamp"))
        yield from rows_of(SUMMARY, export, "summaries")
        yield from (ImportRow(END, name, session) for name, session in in_order)
        yield from versions(rows_of(MEMORY_ROW, export, "memories"))
        for kind, field in (*_LISTS.items(), *zip(self._others, self._others, strict=True)):
            yield from rows_of(kind, export, field)

    def reads(self, kind: str) -> bool:
        """Whether rows of a kind are imported."""
        return kind in self._mappings

    def mapped(self, row: ImportRow) -> Mapped:
        """What a row says; raises CommandRejected when it cannot be taken."""
        if not self.reads(row.kind):
            raise CommandRejected("mnemolog computes this itself or has no equivalent")
        return self._mappings[row.kind](row)

    def _session(self, row: ImportRow) -> Mapped:
        """A session and the commits that were made in it."""
        name, record = row.name, row.value
        needed(record, "id")
        project, at, lost = project_of(record), when(record, "startedAt"), list[str]()
        summary: Any = record.get("summary")
        title = " ".join(((summary if isinstance(summary, str) else "") or text(record, "firstPrompt")).split())
        steps = [sessions.started(project, name, at, title=title, **taken(record, "cwd agent_id"))]
        for sha in names(record, "commitShas", lost):
            linked = LinkCommit(project=project, session_id=name, commit=sha)
            steps.append(Step(linked, f"commit\0{sha}\0{name}", at))
        return Mapped(steps, lost)

    def _observation(self, row: ImportRow) -> Mapped:
        """An observation as it came; where something better than the rules compressed it, as it was compressed."""
        record, lost = row.value, list[str]()
        needed(record, "id")
        session_id = text(record, "sessionId")
        session = self._sessions.get(session_id, {})
        project = text(record, "project") or project_of(session)
        at = when(record, "timestamp")
        hook, kind = text(record, "hookType") or "other", text(record, "type")
        data = raw_of(record)
        content = text(record, "narrative", "title") if not data else ""
        if len(data) == 1 and isinstance(data.get("content"), str):
            content, data = cast(str, data["content"]), {}
        if not content and not data:
            raise CommandRejected("it says nothing: neither raw, narrative nor title", "raw")
        agent = text(record, "agentId") or text(session, "agentId")
        observed = hook_observation(session_id, project, hook, data, kind=kind, content=content, agent_id=agent)
        if record.get("imageData") is not None:
            lost.append("imageData: the image")
        step = Step(observed, row.key, at, compressed(record, observed.kind, content, data, lost))
        return Mapped([step], lost)

    def _summary(self, row: ImportRow) -> Mapped:
        record, lost = row.value, list[str]()
        session_id = needed(record, "sessionId")
        session = self._sessions.get(session_id)
        if session is None:
            raise CommandRejected("its session is not in the export", "sessionId")
        step = sessions.summarised(
            SYSTEM,
            project_of(session),
            session_id,
            when(record, "createdAt"),
            **taken(record, "title narrative"),
            observations=max(whole(record, "observationCount"), len(self._observed.get(session_id, []))),
            decisions=texts(record, "keyDecisions", lost),
            files=texts(record, "filesModified", lost),
            concepts=texts(record, "concepts", lost),
        )
        return Mapped([step], lost)

    def _end(self, row: ImportRow) -> Mapped:
        record, status = row.value, text(row.value, "status")
        at = when_given(record, "endedAt")
        if at is None and status in ("", "active"):
            raise CommandRejected("the session goes on there")
        outcome = "failed" if status in ("failed", "abandoned") else "completed"
        at = at or when_given(record, "updatedAt") or when(record, "startedAt")
        return Mapped([sessions.ended(project_of(record), row.name, at, outcome=outcome)])

    def _memory(self, row: ImportRow) -> Mapped:
        """A memory; one that follows another is its next version."""
        record, lost = row.value, list[str]()
        needed(record, "id")
        content, at = needed(record, "content"), when(record, "createdAt")
        parent = parent_of(record)
        if record.get("isLatest") is False and row.name not in self._superseded and not self._succeeded(record):
            raise CommandRejected("it is not current there, and nothing in the export follows it", "isLatest")
        kind = kind_of(text(record, "type"))
        session_ids = names(record, "sessionIds", lost)
        if len(session_ids) > 1:
            lost.append("sessionIds: all but the first")
        strength = number(record, "strength", STRENGTH)
        project = text(record, "project")
        fields: dict[str, Any] = {
            **classified(kind),
            **taken(record, "title agent_id"),
            "project": project,
            "content": content,
            "session_id": session_ids[0] if session_ids else "",
            "concepts": [concept for concept in names(record, "concepts", lost) if concept != kind],
            "files": names(record, "files", lost),
            "importance": min(10.0, max(0.0, strength)),
        }
        fields["metadata"][_MEMORY_ID] = row.name
        sources = names(record, "sourceObservationIds", lost)
        fields["derived_from"] = [self._id_of(name) for name in sources if name in self._places]
        if len(fields["derived_from"]) < len(sources):
            lost.append("sourceObservationIds: those that are not in the export")
        until = when_given(record, "forgetAfter")
        predecessor = self._memories.get(parent)
        originals = [] if parent else follows(record)
        command: AnyCommand
        if originals and all(text(self._memories.get(name, {}), "project") == project for name in originals):
            lost.append("title, concepts, files: of a memory that was made of several")
            condensed = {name: fields[name] for name in CondenseMemories.__struct_fields__ if name in fields}
            ids = [self._id_of(name) for name in originals]
            command = CondenseMemories(**condensed, originals=ids, model=SYSTEM)
        elif predecessor is not None and text(predecessor, "project") == project:
            command = ReviseMemory(**fields, memory=self._id_of(parent), purpose="information", forget_after=until)
        else:
            if parent:
                lost.append("parentId: the version before is not in the export, or in another project")
            days = None if until is None else (until - at).total_seconds() / 86_400
            if days is not None and days <= 0:
                raise CommandRejected("its time ran out before it began", "forgetAfter")
            command = Remember(**fields, ttl_days=days)
        return Mapped([Step(command, row.key, at)], lost)

    def _succeeded(self, record: Record) -> bool:
        """Whether the fold will find a current memory that states the same, and came later."""
        content, key = text(record, "content"), (text(record, "project"), statement_key(text(record, "content")))
        return any(
            text(other, "createdAt") > text(record, "createdAt")
            and text(record, "agentId") in ("", text(other, "agentId"))
            and states_the_same(content, text(other, "content"))
            for other in self._current.get(key, [])
        )

    @cached_property
    def _current(self) -> dict[tuple[str, str], list[Record]]:
        """Current memories by project and what they state."""
        current: dict[tuple[str, str], list[Record]] = {}
        for memory in self._memories.values():
            if memory.get("isLatest") is not False:
                key = text(memory, "project"), statement_key(text(memory, "content"))
                current.setdefault(key, []).append(memory)
        return current

    def _action(self, row: ImportRow) -> Mapped:
        """An action as it was created, and what became of it."""
        record, lost = row.value, list[str]()
        needed(record, "id")
        created = when(record, "createdAt")
        edges: list[ActionEdge] = []
        for edge in self._edges.get(row.name, []):
            kind, target = text(edge, "type"), text(edge, "targetActionId")
            if kind in get_args(EdgeType) and target in self._actions:
                edges.append(ActionEdge(type=cast(EdgeType, kind), target=self._id_of(target)))
            else:
                lost.append("actionEdges: of another type, or to an action that is not in the export")
        status = text(record, "status") or "pending"
        parent = text(record, "parentId")
        command = WriteAction(
            **taken(record, "project session_id createdBy=agent_id description assigned_to"),
            title=needed(record, "title"),
            status="pending" if status == BLOCKED else status,
            priority=cast("int | float", record["priority"]) if text(record, "priority") else 0,
            tags=names(record, "tags", lost),
            edges=edges,
            parent=self._id_of(parent) if parent in self._actions else "",
        )
        steps = [Step(command, row.key, created)]
        updated, result = when_given(record, "updatedAt") or created, text(record, "result")
        if updated > created or result:
            done = WriteAction(project=command.project, action=self._id_of(row.name), result=result or None)
            steps.append(Step(done, f"{row.key}\0updated", updated))
        if record.get("crystallizedInto") is not None:
            lost.append("crystallizedInto: crystals are not taken")
        return Mapped(steps, lost)

    def _relation(self, row: ImportRow) -> Mapped:
        record = row.value
        source, target = needed(record, "sourceId"), needed(record, "targetId")
        for end in (source, target):
            if not self._id_of(end):
                raise CommandRejected("an end of it is not in the export", "sourceId" if end == source else "targetId")
        confidence = record.get("confidence")
        owner = self._memories.get(source) or self._actions.get(source)
        command = Relate(
            project=text(owner, "project") if owner is not None else self._places[source][0],
            source=self._id_of(source),
            target=self._id_of(target),
            relation=needed(record, "type"),
            confidence=min(1.0, max(0.0, float(confidence))) if isinstance(confidence, int | float) else None,
        )
        return Mapped([Step(command, f"{RELATION}\0{source}\0{command.relation}\0{target}", when(record, "createdAt"))])

    def _id_of(self, name: str) -> str:
        """Our id of a memory, observation or action; empty for what is not in the export."""
        if name in self._memories:
            noun, kind, route = MEMORY, MEMORY_ROW, project_route(self.tenant, text(self._memories[name], "project"))
        elif name in self._places:
            noun, kind, route = OBSERVATION, OBSERVATION_ROW, session_route(self.tenant, *self._places[name])
        elif name in self._actions:
            noun, kind, route = ACTION, ACTION_ROW, project_route(self.tenant, text(self._actions[name], "project"))
        else:
            return ""
        return name if name in self.own else document_id(noun, route, imported_event_id(SYSTEM, f"{kind}\0{name}"))


def open_source(request: ImportRequest) -> Source:
    """The source of an export, of its SQLite file, or of a running server. Raises Unusable."""
    location = request.required_location("an export file, its SQLite file, or the URL of its server")
    export: Any
    if is_url(location):
        with RestServer(location, request.secret) as server:
            export = agentmemory_export(server)
    elif is_sqlite(Path(location)):
        with closing(Sqlite(Path(location))) as database:
            export = agentmemory_tables(database)
    else:
        export = document(Path(location))
    if not isinstance(export, dict):
        raise Unusable(f"{location} is no export of agentmemory: it is no JSON object")
    if any(scope in export for scope in _SCOPES.values()):
        scopes = cast(Record, export).items()
        stored = {name: cast(Record, entries) for name, entries in scopes if isinstance(entries, dict)}
        export = of_scopes(stored, lambda scope: list(stored[scope].values()), lambda scope: len(stored[scope]))
    fields = {name: value for name, value in cast(Record, export).items() if name != "exportedAt"}
    contents = Export(fields, request.tenant)
    total = sum(1 for _ in contents.rows())
    source = WholeSource(SYSTEM, contents.rows, total, contents.mapped, fingerprint_of(fields))
    source.notes += newer("the export", text(fields, "version"), ".".join(map(str, LAST)))
    if any(OURS.fullmatch(row.name) for row in islice(contents.rows(), LOOKED_AT)):
        source.notes.append("mnemolog made this export: on the server that made it, everything would be there twice")
    if not is_url(location) and as_object(fields.get("pagination")).get("hasMore"):
        source.notes.append("the file is one page of an export: import the others, too, or from the running server")
    return source


_OBSERVATIONS = "mem:obs:"
LOOKED_AT = 1_000
"""Rows by whose names an export of our own is recognised."""
OURS = re.compile(r"(obs|mem)_[0-9a-f]{20}")
AGENTMEMORY_SESSIONS = 100


def lesson(row: ImportRow, tenant: str) -> Mapped:
    """A lesson with its confidence as of when that was last changed."""
    record, lost = row.value, list[str]()
    if record.get("deleted"):
        raise CommandRejected("it is deleted there", "deleted")
    project, content = text(record, "project") or EVERY_PROJECT, needed(record, "content")
    created = when(record, "createdAt")
    reinforced = max(created, when_given(record, "lastReinforcedAt") or created)
    until = max(reinforced, when_given(record, "lastDecayedAt") or reinforced)
    confidence = min(1.0, max(0.0, number(record, "confidence", 0.5)))
    count = whole(record, "reinforcements")
    past = sessions.history(confidence, count, created, reinforced, until)
    if count > sessions.MAX_REINFORCEMENTS:
        lost.append(f"reinforcements: more than {sessions.MAX_REINFORCEMENTS}")
    began = created
    if not past.leads_to(confidence) and reinforced > created:
        late = sessions.history(confidence, count, reinforced, reinforced, until)
        if late.leads_to(confidence):
            past, began = late, reinforced
            lost.append("createdAt: no history from then on leads to the confidence")
    if not past.leads_to(confidence):
        lost.append("confidence: no history with as many confirmations leads to it")
    recorded = RecordLesson(
        project=project,
        content=content,
        context=text(record, "context"),
        confidence=past.began_with,
        tags=names(record, "tags", lost),
        title=text(record, "title")[:NAME_CHARS],
        origin=text(record, "source") or ("reflection" if row.kind == INSIGHT else "manual"),
        metadata=_sources(record),
        occurred_at=created,
    )
    name = sessions.lesson_id(tenant, project, content)
    steps = [Step(recorded, row.key, began)]
    for index, at in enumerate(past.confirmed):
        steps.append(Step(ReinforceLesson(project=project, lesson=name), f"{row.key}\0confirmed {index}", at))
    return Mapped(steps, lost)


def derived(row: ImportRow) -> Mapped:
    """A fact or a procedure that a model drew there: a memory that supersedes nothing."""
    record, lost = row.value, list[str]()
    needed(record, "id")
    if row.kind == FACT_ROW:
        content, tag, title, share = needed(record, "fact"), FACT, "", number(record, "confidence", 0.5)
    else:
        tag, title, share = PROCEDURE, needed(record, "name"), number(record, "strength", 0.5)
        ends = {"When": text(record, "triggerCondition"), "Outcome": text(record, "expectedOutcome")}
        steps = [f"{index}. {' '.join(step.split())}" for index, step in enumerate(texts(record, "steps", lost), 1)]
        content = "\n".join([title, *(f"{label}: {end}" for label, end in ends.items() if end), *steps])
    command = Remember(
        project=text(record, "project"),
        content=content,
        title=title[:NAME_CHARS],
        memory_type="semantic" if tag == FACT else "procedural",
        tags=[tag, CONSOLIDATED, *names(record, "tags", lost)],
        concepts=names(record, "concepts", lost),
        importance=10 * min(1.0, max(0.0, share)),
        metadata=without_empty(
            {_MEMORY_ID: row.name, **_sources(record), **{name: text(record, name) for name in _COUNTS}}
        ),
        keep_duplicates=True,
    )
    return Mapped([Step(command, row.key, when(record, "createdAt"))], lost)


def _sources(record: Record) -> dict[str, str]:
    """Metadata that names what a record was drawn from, as it was called there."""
    lists = {name: as_list(items) for name, items in record.items() if name.startswith("source")}
    return {name: ",".join(map(str, items))[: SOURCES_BYTES // 4] for name, items in lists.items() if items}


def slot(row: ImportRow) -> Mapped:
    """A slot as it was created and as it was last written."""
    record = row.value
    created = when_given(record, "createdAt") or when_given(record, "updatedAt")
    if created is None:
        raise CommandRejected("the slot is empty", "content")
    updated = when_given(record, "updatedAt") or created
    scope, limit = text(record, "scope"), whole(record, "sizeLimit")
    project = "" if scope == "global" else text(record, "project")
    content: Any = record.get("content")
    pinned: Any = record.get("pinned")
    command = SetSlot(
        project=project,
        label=needed(record, "label"),
        content=content if isinstance(content, str) else "",
        scope="global" if scope == "global" else "project",
        size_limit=limit or None,
        description=text(record, "description"),
        pinned=pinned if isinstance(pinned, bool) else None,
        read_only=True if record.get("readOnly") is True else None,
    )
    key = f"{SLOT}\0{command.scope}\0{project}\0{command.label}"
    steps = [Step(command, f"{key}\0{created.isoformat()}", created)]
    if updated > created:
        steps.append(Step(command, f"{key}\0{updated.isoformat()}", updated))
    return Mapped(steps)


def compressed(
    record: Record, kind: str, content: str, data: Mapping[str, Any], lost: list[str]
) -> ObservationCompressed | None:
    """How an observation was compressed there, when our rules make something else of it."""
    ours = compress(kind, content, dict(data))
    stated = ObservationCompressed(
        observation="",
        **taken(record, "title narrative"),
        facts=texts(record, "facts", lost),
        concepts=texts(record, "concepts", lost),
        files=texts(record, "files", lost),
        importance=min(10, max(1, whole(record, "importance") or 5)),
        model=SYSTEM,
        prompt_version="",
    )
    by_rule = number(record, "confidence", CONFIDENCE) <= CONFIDENCE
    if not stated.title or (by_rule and (stated.title, stated.narrative) == (ours.title, ours.narrative)):
        return None
    if by_rule and data and not (stated.facts or stated.concepts):
        return None  # its own rules' work, from what ours work from
    return stated


def taken(record: Record, fields: str) -> dict[str, Any]:
    """Texts of a record under the names of a command's fields: `fields` as of `stated`."""
    return {field: text(record, name) for name, field in pairs(fields)}


def raw_of(record: Record) -> Record:
    """What was observed, as it came; empty when the export has only what was made of it."""
    raw: Any = record.get("raw")
    if data := as_object(raw):
        return dict(data)
    fields = {"tool_name": "toolName", "tool_input": "toolInput", "tool_output": "toolOutput", "prompt": "userPrompt"}
    data = {ours: record[theirs] for ours, theirs in fields.items() if record.get(theirs) is not None}
    if isinstance(raw, str) and raw:
        data.setdefault("content", raw)
    return data


def versions(memories: Iterator[ImportRow]) -> Iterator[ImportRow]:
    """Memories, the oldest first, and each after the one it follows."""
    rows = sorted(memories, key=lambda row: (text(row.value, "createdAt"), number(row.value, "version", 1), row.name))
    places = {row.name: index for index, row in enumerate(rows)}
    entered, done = set[int](), set[int]()
    for index in range(len(rows)):
        waiting = [index]
        while waiting:
            last = waiting[-1]
            entered.add(last)
            before = [places[name] for name in follows(rows[last].value) if name in places]
            if last not in done and (first := [other for other in before if other not in entered]):
                waiting.extend(first)
                continue
            if waiting.pop() not in done:
                done.add(last)
                yield rows[last]


def parent_of(memory: Record) -> str:
    """The memory that one is the next version of; empty for none."""
    if parent := text(memory, "parentId"):
        return parent
    names = as_list(memory.get("supersedes"))
    return names[0] if len(names) == 1 and isinstance(names[0], str) else ""


def follows(memory: Record) -> list[str]:
    """The memories in whose place one is."""
    parent = parent_of(memory)
    return [parent] if parent else [name for name in as_list(memory.get("supersedes")) if isinstance(name, str)]


def unlisted(name: str, rows: list[Any]) -> Record:
    """A session that an export only has observations of: it began with the first and ended with the last."""
    times = sorted(filter(None, (text(row, "timestamp") for row in objects(rows))))
    span = {"startedAt": times[0], "endedAt": times[-1]} if times else {}
    return {"id": name, "project": UNKNOWN_PROJECT, **span}


def project_of(session: Record) -> str:
    """The project of a session."""
    return text(session, "project") or UNKNOWN_PROJECT


def row_of(kind: str, value: object, index: str, **more: str) -> ImportRow:
    """A row; what is no object is an empty one, and so is refused with a reason."""
    record = as_object(value)
    return ImportRow(kind, text(record, "id", "label", "sessionId") or f"number {index}", {**record, **more})


def rows_of(kind: str, export: Mapping[str, Any], field: str) -> Iterator[ImportRow]:
    """The rows of a list."""
    return (row_of(kind, value, f"{index}") for index, value in enumerate(as_list(export.get(field))))


def agentmemory_export(server: RestServer) -> Record:
    """The whole export of an agentmemory server, gathered from pages of sessions."""
    whole: Record = {}
    while True:
        offset = len(whole.get("sessions", []))
        part = as_object(server.get("/agentmemory/export", maxSessions=AGENTMEMORY_SESSIONS, offset=offset))
        if not isinstance(part.get("sessions"), list):
            error = part.get("error")
            raise Unusable(f"{server.url} answered no export of agentmemory{f': {error}' if error else ''}")
        if not whole:
            whole = part
        else:
            whole["sessions"] += part["sessions"]
            whole["observations"] = {**(whole.get("observations") or {}), **(part.get("observations") or {})}
        pagination: Record = part.get("pagination") or {}
        if not pagination.get("hasMore") or not part["sessions"]:
            return whole
        if len(whole["sessions"]) > MAX_ITEMS:
            raise Unusable(f"{server.url} has over {MAX_ITEMS:,} sessions")


def agentmemory_tables(database: Database) -> Record:
    """The export object of an agentmemory file, a table of JSON values by scope and key. Raises Unusable."""
    if not {"scope", "key", "value"} <= database.columns("kv_store"):
        raise Unusable("this is no file of agentmemory: it has no table `kv_store`")
    scopes = [row["scope"] for row in database.ask("SELECT DISTINCT scope FROM kv_store ORDER BY scope")]
    counted = "SELECT count(*) AS n FROM kv_store WHERE scope = ?"
    return of_scopes(
        scopes, lambda scope: _values(database, scope), lambda scope: database.ask(counted, [scope])[0]["n"]
    )


def of_scopes(scopes: Iterable[str], values: Callable[[str], list[Any]], count: Callable[[str], int]) -> Record:
    """The export object of a store of scopes; of a scope that is not imported, a list of as many empty rows."""
    export: Record = {**{name: list[Any]() for name in _SCOPES}, "observations": {}}
    lists = {scope: name for name, scope in _SCOPES.items()} | {"mem:slots:global": "slots"}
    for scope in scopes:
        if scope.startswith(_OBSERVATIONS):
            export["observations"][scope.removeprefix(_OBSERVATIONS)] = values(scope)
        else:
            name, is_read = lists.get(scope, scope), scope in lists
            export[name] = [*export.get(name, ()), *(values(scope) if is_read else [None] * count(scope))]
    return export


def _values(database: Database, scope: str) -> list[Any]:
    """The values of a scope, oldest first as far as ids tell; what is no JSON stays a text, and is refused later."""
    values: list[Any] = []
    for row in database.ask("SELECT value FROM kv_store WHERE scope = ? ORDER BY key", [scope]):
        stored = row["value"]
        try:
            values.append(decoded(stored if isinstance(stored, bytes) else str(stored).encode(), "a value"))
        except Unusable:
            values.append(stored)
    return values
