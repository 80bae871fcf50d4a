"""agentmemory's records as ours, there and back. Pure.

A record is made of a document as readers get it (`projections.queries.views.view`). What agentmemory knows and our
documents do not is kept so that it comes back as it was: a memory's `type` in the metadata, and as a tag, so that it
is found by it; an observation's hook in its metadata.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Literal, TypeAlias, cast, get_args

from api.hook_observations import HOOK_FIELD, IMAGE_FIELD, MODALITY_FIELD
from ingest.nouns.memory import MemoryType
from ingest.platform.clock import utc_text
from projections.nouns.relation import Relation
from projections.text.compression import spoken

View: TypeAlias = Mapping[str, Any]
Record: TypeAlias = dict[str, Any]
Format: TypeAlias = Literal["full", "compact", "narrative"]
MemoryKind: TypeAlias = Literal["pattern", "preference", "architecture", "bug", "workflow", "fact"]
MEMORY_KINDS: dict[str, MemoryKind] = {kind: kind for kind in get_args(MemoryKind)}
FORMATS: tuple[Format, ...] = get_args(Format)
STRENGTH = 7.0
"""Of a memory when it is saved."""
KIND_FIELD = "type"
"""Metadata that keeps a memory's kind."""
SOURCES_FIELD, SOURCES_BYTES = "sourceObservationIds", 3_000
"""Metadata that keeps which observations a memory is said to be from, with commas, and how long that may be."""
SUPERSEDED = 100
"""Earlier versions that a memory names."""
NO_SESSION = "memory"
"""Where a memory that belongs to no session is said to come from."""
_TYPE_OF: dict[str, MemoryType] = {"workflow": "procedural", "pattern": "procedural"}
_TOOL_HOOKS = ("post_tool_use", "post_tool_failure")
_STATUS = {"ended": "completed"}


def kind_of(given: str | None) -> MemoryKind:
    """The kind a caller names; any other name is a fact."""
    return MEMORY_KINDS.get((given or "").strip().lower(), "fact")


def classified(kind: MemoryKind, sources: Iterable[str] = ()) -> Record:
    """What of a Remember command keeps a memory's kind, and which observations it is said to be from.

    They are stored and shown, but are not its sources. Of many, as many as the metadata has room for.
    """
    named = ",".join(distinct(source.strip() for source in sources if "," not in source))
    if len(named.encode()) > SOURCES_BYTES:
        named = named.encode()[:SOURCES_BYTES].decode(errors="ignore").rpartition(",")[0]
    metadata = {KIND_FIELD: kind, **without_empty({SOURCES_FIELD: named})}
    return {"memory_type": _TYPE_OF.get(kind, "semantic"), "tags": [kind], "metadata": metadata}


def observation_record(document: View) -> Record:
    """An observation: as it came, and compressed."""
    data: Mapping[str, Any] = document["data"]
    hook: str = document["metadata"].get(HOOK_FIELD) or ("post_tool_use" if "tool_name" in data else document["kind"])
    raw: Record = dict(data)
    if document["content"]:
        raw.setdefault("content", document["content"])
    record: Record = {
        **renamed(document, "id session_id timestamp=occurred_at"),
        "hookType": hook or "other",
        "project": document["project"],
        "raw": raw,
        "type": document["kind"] or "other",
        **renamed(document, "title facts narrative concepts files importance confidence"),
    }
    optional: Record = renamed(document, "subtitle agent_id")
    optional |= {name: document["metadata"].get(name) for name in (MODALITY_FIELD, IMAGE_FIELD)}
    if hook in _TOOL_HOOKS:
        output = data.get("tool_output")
        optional |= {
            "toolName": data.get("tool_name"),
            "toolInput": data.get("tool_input"),
            "toolOutput": data.get("error") if output is None else output,
        }
    if hook == "prompt_submit":
        optional["userPrompt"] = data.get("prompt")
    return record | without_empty(optional)


def memory_record(document: View, *, related: Sequence[str] = (), earlier: Sequence[str] = ()) -> Record:
    """A memory; `related` to others, and the version after `earlier` ones, the newest first, where they are known."""
    kind = memory_kind(document)
    sources: str = document["metadata"].get(SOURCES_FIELD, "")
    record: Record = {
        **renamed(document, "id createdAt=recorded_at updated_at"),
        "type": kind,
        **renamed(document, "title content"),
        "concepts": distinct([*document["concepts"], *(tag for tag in document["tags"] if tag != kind)]),
        "files": list(document["files"]),
        "sessionIds": [document["session_id"]] if document["session_id"] else [],
        "strength": plain(document["importance"]),
        "version": document["version"],
        "supersedes": distinct([document["parent_id"], *earlier, *document["condensed"]]),
        "sourceObservationIds": distinct(
            [*(name for name in document["derived_from"] if name.startswith("obs_")), *sources.split(",")]
        ),
        "isLatest": document["is_latest"],
    }
    optional = renamed(document, "parent_id agent_id project forget_after")
    return record | without_empty({**optional, "relatedIds": list(related)})


def versions(history: Sequence[View]) -> list[Record]:
    """The versions of one memory, oldest first, each with those before it, at most SUPERSEDED."""
    names = [version["id"] for version in history]
    return [
        memory_record(view, earlier=names[max(0, index - SUPERSEDED) : index][::-1])
        for index, view in enumerate(history)
    ]


def related_to(relations: Iterable[Relation]) -> dict[str, list[str]]:
    """The documents that each end of these relations is related to, without duplicates."""
    neighbors: dict[str, dict[str, None]] = {}
    for relation in relations:
        for end, other in ((relation.source, relation.target), (relation.target, relation.source)):
            if end != other:
                neighbors.setdefault(end, {})[other] = None
    return {end: list(others) for end, others in neighbors.items()}


def memory_kind(document: View) -> MemoryKind:
    """A memory's kind: as it was saved; of one saved otherwise, what its tags or its type come nearest to."""
    stated: list[str] = [document["metadata"].get(KIND_FIELD, ""), *document["tags"]]
    kinds: list[MemoryKind] = [MEMORY_KINDS[name] for name in stated if name in MEMORY_KINDS]
    return kinds[0] if kinds else ("workflow" if document["memory_type"] == "procedural" else "fact")


def found_record(document: View) -> Record:
    """What a search found, as an observation: a memory, too."""
    if "memory_type" not in document:
        return observation_record(document)
    return {
        "id": document["id"],
        "sessionId": document["session_id"] or NO_SESSION,
        "timestamp": iso(document["recorded_at"]),
        "type": "decision",
        "title": document["title"],
        "facts": [fact] if (fact := spoken(document["content"])) else [],
        "narrative": document["content"],
        "concepts": distinct([*document["concepts"], *document["tags"]]),
        "files": list(document["files"]),
        "importance": plain(document["importance"]),
        "confidence": 1,
        **without_empty(renamed(document, "agent_id project")),
    }


def search_result(view: View, score: float, form: Format) -> Record:
    """A search result: flat fields, and in full the observation they are from."""
    record = found_record(view)
    item: Record = {
        **renamed(record, "obsId=id sessionId title type"),
        "score": score,
        "combinedScore": score,
        "timestamp": record["timestamp"],
    }
    if form != "compact":
        item["narrative"] = record["narrative"]
    if form == "full":
        content = view["content"] or record["narrative"]
        item |= {"content": content, **renamed(record, "concepts files"), "observation": record}
    return item


def packed(items: Sequence[Record], budget: int | None) -> tuple[list[Record], int, bool]:
    """The items up to the first that does not fit a budget of tokens, their tokens, and whether some are left out."""
    selected: list[Record] = []
    used = 0
    for item in items:
        tokens = math.ceil(len(json.dumps(item, ensure_ascii=False, separators=(",", ":"))) / 3)
        if budget is not None and used + tokens > budget:
            return selected, used, True
        selected.append(item)
        used += tokens
    return selected, used, False


def narrated(items: Iterable[Record]) -> str:
    """Search results as text to read."""
    return "\n\n".join(f"[{item['timestamp']}] {item['title']}\n{item['narrative']}" for item in items)


def session_record(document: View, its_summary: View | None = None, commits: Sequence[str] = ()) -> Record:
    """A session, with its summary once it has one."""
    record: Record = {
        **renamed(document, "id project cwd started_at updated_at"),
        "status": _STATUS.get(document["status"], document["status"]),
        "observationCount": document["observation_count"],
    }
    ended: datetime | None = document["ended_at"]
    title = document["title"]
    return record | without_empty(
        {
            "endedAt": ended and iso(ended),
            "firstPrompt": document["first_prompt"] or title,
            "summary": summary_record(its_summary) if its_summary is not None else title,
            "agentId": document["agent_id"],
            "commitShas": list(commits),
        }
    )


def summary_record(document: View) -> Record:
    """A session's summary."""
    return renamed(
        document,
        "session_id project createdAt=recorded_at title narrative keyDecisions=decisions filesModified=files concepts "
        "observation_count",
    )


def commit_record(document: View) -> Record:
    """A commit."""
    return {
        "sha": document["commit"],
        "shortSha": document["commit"][:7],
        **renamed(document, "branch repo message author authored_at files session_ids linked_at"),
    }


def renamed(document: View, fields: str) -> Record:
    """Fields of a document in agentmemory's form: `created_at` becomes createdAt, and of `sha=commit` the name comes
    first. Times are text, sequences lists."""
    record: Record = {}
    for name, field in pairs(fields):
        value = document[field]
        if isinstance(value, datetime):
            value = iso(value)
        elif isinstance(value, list | tuple):
            value = list(cast("Iterable[Any]", value))
        record[name] = value
    return record


def stated(record: Mapping[str, Any], fields: str) -> Record:
    """The opposite of `renamed`: fields of a record or of arguments under our names, as they are."""
    return {field: record[name] for name, field in pairs(fields)}


@cache
def pairs(fields: str) -> tuple[tuple[str, str], ...]:
    """The record's name and the document's name of each field."""
    pairs: list[tuple[str, str]] = []
    for field in fields.split():
        name, _, source = field.rpartition("=")
        first, *others = source.split("_")
        pairs.append((name or first + "".join(map(str.capitalize, others)), source))
    return tuple(pairs)


def iso(when: datetime) -> str:
    """A time as agentmemory writes it: UTC, to the millisecond, with a Z."""
    return utc_text(when, "milliseconds")


def without_empty(fields: Record) -> Record:
    """Without what is empty: agentmemory leaves it out."""
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


def distinct(names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name]


def plain(number: float) -> int | float:
    return int(number) if float(number).is_integer() else number
