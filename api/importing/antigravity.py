"""Antigravity's conversations: a turn is an observation, the same whether it is synced or imported."""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, cast

from api.importing import sessions
from api.importing.mapping import ImportRow, Mapped, Step, needed, text
from ingest.commands.requests import Observe
from ingest.errors import CommandRejected

SYSTEM = AGENT = "antigravity"
TURN = "turn"


def observed(session_id: str, project: str, prompt: str, response: str) -> Observe:
    """The command that records a turn; its event is named after session and prompt."""
    name = blake2b(f"{session_id}\0{prompt}".encode(), digest_size=16).hexdigest()
    data = {"tool_name": "conversation", "tool_input": prompt, "tool_output": response}
    return sessions.hook_observation(session_id, project, "post_tool_use", data, agent_id=AGENT, event_id=name)


def mapped(row: ImportRow, at: datetime) -> Mapped:
    """The turn of a row; nothing says when it was, so it was `at`."""
    record = row.value
    if reason := text(record, "reason"):
        raise CommandRejected(reason)
    session_id, project = needed(record, "session_id"), text(record, "project") or sessions.UNKNOWN_PROJECT
    steps: list[Step] = []
    if record.get("first"):
        cwd = text(record, "project")
        steps.append(sessions.started(project, session_id, at, cwd=cwd, agent=AGENT, agent_type=SYSTEM))
    command = observed(session_id, project, needed(record, "prompt"), needed(record, "response"))
    steps.append(Step(command, f"{TURN}\0{row.name}", at))
    return Mapped(steps)


def rows(file: Path) -> Iterator[ImportRow]:
    """The turns of one conversation; of one that is too long a row that says so."""
    if file.stat().st_size > MAX_BYTES:
        reason = f"the file has over {MAX_BYTES >> 20} MiB, and a conversation is read whole"
        yield ImportRow(TURN, str(file), {"reason": reason})
        return
    place = file.parents[len(TRANSCRIPT.parts) - 1] if file.as_posix().endswith(TRANSCRIPT.as_posix()) else None
    found = conversation(file, file.stem if place is None else place.name)
    for number, turn in enumerate(found.turns):
        fields = {"session_id": found.session_id, "project": found.folder, "prompt": turn.prompt}
        more = {"response": turn.response, "first": number == 0}
        yield ImportRow(TURN, f"{found.session_id} turn {number + 1}", {**fields, **more})


TRANSCRIPT = Path(".system_generated/logs/transcript.jsonl")
MAX_BYTES = 64 << 20
"""A transcript over this is passed over."""
_REQUEST = re.compile(r"<USER_REQUEST>(.*?)</USER_REQUEST>", re.DOTALL)
_MAPPING = re.compile(r"(?:^|\n)[ \t]*\[?((?:file:|/|~|[A-Za-z]:[\\/])[^\]\n]*?)\]?[ \t]+->[ \t]+\[?[^\]\n]+\]?")
_TEXT_FIELDS = ("content", "text", "message", "response", "user_response", "prompt")
_KIND_FIELDS = ("type", "step_type", "kind", "source")


class Turn(NamedTuple):
    """What was asked, and what was answered."""

    prompt: str
    response: str


class Conversation(NamedTuple):
    """One conversation: its id, the folder it works in as far as it says so, its turns."""

    id: str
    folder: str
    turns: list[Turn]

    @property
    def session_id(self) -> str:
        """The session that it is kept as."""
        return f"antigravity_{self.id[:18].replace('-', '_')}"


def brain(home: Path) -> Path:
    """Where the conversations of a user are."""
    return home / ".gemini" / "antigravity" / "brain"


def conversations(folder: Path, only: str = "") -> Iterator[Conversation]:
    """The conversations below a folder, by id; `only` the one of that id."""
    for place in sorted(folder.iterdir()):
        path = place / TRANSCRIPT
        if (not only or place.name == only) and path.is_file() and path.stat().st_size <= MAX_BYTES:
            yield conversation(path, place.name)


def conversation(path: Path, name: str) -> Conversation:
    """The conversation of that id in a transcript."""
    lines = path.read_text("utf-8", "replace").splitlines()
    return Conversation(name, folder_of(lines[0]) if lines else "", list(turns(lines)))


def turns(lines: Iterable[str]) -> Iterator[Turn]:
    """The turns of a transcript; a prompt without an answer is none."""
    prompt = ""
    for line in lines:
        entry = _entry(line)
        kinds = {str(entry.get(field, "")).upper() for field in _KIND_FIELDS}
        if "USER_INPUT" in kinds:
            prompt = _request_text(_text(entry))
        elif "PLANNER_RESPONSE" in kinds and prompt and (response := _text(entry)):
            yield Turn(prompt, response)
            prompt = ""


def folder_of(line: str) -> str:
    """The folder that a transcript's first line maps to a name; empty when it does not say."""
    found = _MAPPING.search(_text(_entry(line)))
    return found[1].strip().removeprefix("file://") if found else ""


def _entry(line: str) -> dict[str, Any]:
    try:
        entry: Any = json.loads(line)
    except ValueError:
        return {}
    return cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}


def _text(entry: dict[str, Any]) -> str:
    """The text of a line, wherever this version of Antigravity puts it."""
    for field in _TEXT_FIELDS:
        value: Any = entry.get(field)
        if isinstance(value, dict):
            value = _text(cast("dict[str, Any]", value))
        if isinstance(value, str) and value.strip():
            return value
    return ""


def _request_text(text: str) -> str:
    found = _REQUEST.search(text)
    return (found[1] if found else text).strip()
