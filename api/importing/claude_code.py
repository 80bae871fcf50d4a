"""Claude Code transcripts: prompts, answers and tool calls, from the lines of a transcript. Pure.

A tool call and its result become one observation, as the hook would have reported it, with the line number of the
result.
"""

from collections.abc import Iterable, Iterator
from pathlib import PureWindowsPath
from typing import NamedTuple, cast

from api.hook_observations import UNKNOWN_PROJECT, hook_observation
from api.importing import sessions
from api.importing.mapping import NAME_CHARS, ImportRow, Mapped, Record, Step, as_object, needed, objects, text, when
from ingest.errors import CommandRejected

SYSTEM = "claude-code"
OBSERVATION, LINE = "observation", "line"
ANSWER = "assistant_message"
MAX_TEXT = 8_000
"""The character limit of a text in a tool's input or output, the same as in hooks."""
MAX_WAITING = 1_000
"""The most tool calls that wait for their results at the same time."""


class TranscriptLine(NamedTuple):
    """One line of a transcript; None if it is not a JSON object."""

    number: int
    entry: Record | None


def is_one(entry: Record) -> bool:
    """Whether a line belongs to a Claude Code transcript."""
    return isinstance(entry.get("type"), str) and ("sessionId" in entry or "leafUuid" in entry or "snapshot" in entry)


def rows(lines: Iterable[TranscriptLine]) -> Iterator[tuple[int, ImportRow]]:
    """The rows of a transcript's lines, each with the number of the line that completes it."""
    waiting: dict[str, tuple[Record, Record]] = {}
    opened: set[str] = set()
    for number, entry in lines:
        completed = [] if entry is None else list(_observed(entry, waiting))
        for row in completed:
            session = text(row.value, "sessionId")
            if session not in opened:
                opened.add(session)
                row.value["first"] = True
            yield number, row
        if not completed:
            yield number, ImportRow(LINE, f"line {number}", {"reason": reason_without_row(entry)})
    for name in waiting:
        yield 0, ImportRow(LINE, name, {"reason": "a tool call without a result"})


def mapped(row: ImportRow) -> Mapped:
    """The commands for a row; raises CommandRejected for a line without content."""
    if row.kind == LINE:
        raise CommandRejected(cast(str, row.value["reason"]))
    record, lost = row.value, list[str]()
    session_id, cwd, at = needed(record, "sessionId"), text(record, "cwd"), when(record, "timestamp")
    project = sessions.folder_project(cwd) or PureWindowsPath(cwd).name or UNKNOWN_PROJECT
    key = f"{OBSERVATION}\0{session_id}\0{row.name}"
    steps: list[Step] = []
    if record.get("first"):
        steps.append(sessions.started(project, session_id, at, cwd=cwd, agent_type=SYSTEM))
    match record["what"]:
        case "compaction":
            command = hook_observation(session_id, project, "compaction", {}, content=text(record, "text"))
            steps.append(Step(command, key, at))
        case "subagent":
            reported = {"last_message": text(record, "text")}
            steps.append(Step(hook_observation(session_id, project, "subagent_stop", reported), key, at))
        case "prompt":
            steps.append(sessions.prompted(project, session_id, text(record, "text"), key, at))
        case "answer":
            command = hook_observation(session_id, project, ANSWER, {}, content=text(record, "text"))
            steps.append(Step(command, key, at))
        case _:
            tool_input, tool_output = cut(record["given"], lost), cut(plain(record["answered"]), lost)
            tool = text(record, "tool")[:NAME_CHARS]
            failed = bool(record["failed"])
            steps.append(
                Step(sessions.acted(project, session_id, tool, tool_input, tool_output, failed=failed), key, at)
            )
    return Mapped(steps, list(dict.fromkeys(lost)))


def _observed(entry: Record, waiting: dict[str, tuple[Record, Record]]) -> Iterator[ImportRow]:
    """The observations that a line completes; tool calls wait for their results."""
    if entry.get("type") not in ("user", "assistant") or entry.get("isMeta"):
        return
    content = as_object(entry.get("message")).get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
    spoken = "\n".join(text(block, "text") for block in blocks if block.get("type") == "text").strip()
    if spoken:
        yield _row(entry, text(entry, "uuid"), what=_speaker(entry), text=spoken)
    for block in blocks:
        if block.get("type") == "tool_use" and text(block, "id"):
            waiting[text(block, "id")] = entry, block
            if len(waiting) > MAX_WAITING:
                waiting.pop(next(iter(waiting)))
        elif block.get("type") == "tool_result" and (call := waiting.pop(text(block, "tool_use_id"), None)):
            yield _row(
                {**call[0], "timestamp": entry.get("timestamp") or call[0].get("timestamp")},
                text(block, "tool_use_id"),
                what="tool",
                tool=text(call[1], "name") or "unknown",
                given=call[1].get("input"),
                answered=block.get("content"),
                failed=block.get("is_error") is True,
            )


def _speaker(entry: Record) -> str:
    """What kind of turn a line has: also the task of a subagent is the subagent's, not the user's."""
    if entry.get("isCompactSummary"):
        return "compaction"
    if entry.get("isSidechain"):
        return "subagent"
    return "prompt" if entry["type"] == "user" else "answer"


def _row(entry: Record, name: str, **fields: object) -> ImportRow:
    common = {field: entry.get(field) for field in ("sessionId", "cwd", "timestamp")}
    return ImportRow(OBSERVATION, name or text(entry, "timestamp"), {**common, **fields})


def reason_without_row(entry: Record | None) -> str:
    """Why a line produces no row."""
    if entry is None:
        return "not a JSON object"
    kind = text(entry, "type") or "no type"
    if kind in ("user", "assistant"):
        return "part of a tool call, or without text"
    return f"no message: {kind[:40]}"


def plain(answered: object) -> object:
    """The text of a result's blocks."""
    if not isinstance(answered, list):
        return answered
    blocks = objects(cast(object, answered))
    return "\n".join(text(block, "text") or f"[{text(block, 'type') or 'block'}]" for block in blocks)


def cut(value: object, lost: list[str]) -> object:
    """The value with its texts truncated, including those in objects."""
    if isinstance(value, str) and len(value) > MAX_TEXT:
        lost.append(f"texts of tool calls after {MAX_TEXT:,} characters")
        return value[: MAX_TEXT - 1] + "…"
    if isinstance(value, dict):
        return {name: cut(part, lost) for name, part in cast("dict[str, object]", value).items()}
    return value
