"""JSON Lines: native commands, and transcripts of Claude Code and Antigravity; a file, or all files below a folder."""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from api.hook_observations import UNKNOWN_PROJECT, hook_observation
from api.importing import claude_code, sessions
from api.importing.mapping import ImportRow, Mapped, Step, as_object, needed, text
from api.importing.source import Cursor, Placed, Source, Unusable, lines, reading
from ingest.commands.decide import Observe
from ingest.commands.parse import parse_batch
from ingest.errors import CommandRejected
from ingest.platform.clock import EPOCH

MAX_FILES = 100_000
LOOKED_AT = 50
"""The number of lines that are used to detect a file's format."""


class Format(StrEnum):
    """The format of the lines (an enum, because typer does not accept a list of literals)."""

    AUTO = "auto"
    COMMANDS = "commands"
    CLAUDE_CODE = "claude-code"
    ANTIGRAVITY = "antigravity"


SYSTEM, COMMAND = "jsonl", "command"
ANTIGRAVITY = AGENT = "antigravity"
SYSTEMS = {
    Format.AUTO: SYSTEM,
    Format.COMMANDS: SYSTEM,
    Format.CLAUDE_CODE: claude_code.SYSTEM,
    Format.ANTIGRAVITY: ANTIGRAVITY,
}
"""The system in event ids: a transcript's events are the same, however it is imported."""
USUAL = {
    Format.CLAUDE_CODE: lambda: Path.home() / ".claude" / "projects",
    Format.ANTIGRAVITY: lambda: brain(Path.home()),
}
"""The default locations of transcripts."""


class LinesSource(Source):
    """Rows of `.jsonl` files, by path; a cursor is a path and a line of it."""

    def __init__(self, location: Path, form: Format) -> None:
        super().__init__(SYSTEMS[form], self._mapped)
        self._form = form
        self._root = location if location.is_dir() else location.parent
        self._files = _jsonl_files(location)
        self._at = EPOCH

    def rows(self, after: Cursor) -> Iterator[Placed]:
        """The rows after a cursor; raises Unusable."""
        path, line = (str(after[0]), int(after[1])) if after else ("", 0)
        for file in self._files:
            name = file.relative_to(self._root).as_posix()
            if name < path:
                continue
            with reading(file):
                yield from self._file(file, name, line if name == path else 0)

    def _mapped(self, row: ImportRow) -> Mapped:
        if self.system == claude_code.SYSTEM:
            return claude_code.mapped(row)
        return turn(row, self._at) if self.system == ANTIGRAVITY else command(row, self._at)

    def _file(self, file: Path, name: str, done: int) -> Iterator[Placed]:
        form = _recognised(file) if self._form == Format.AUTO else self._form
        self._at = datetime.fromtimestamp(int(file.stat().st_mtime), UTC)
        self.system = SYSTEMS[form]
        match form:
            case Format.CLAUDE_CODE:
                for number, row in claude_code.rows(lines(file)):
                    if number > done or not number:
                        yield Placed(row, [name, max(done, number)])
                        done = max(done, number)
            case Format.ANTIGRAVITY:
                for number, row in enumerate(conversation_rows(file), 1):
                    if number > done:
                        yield Placed(row, [name, number])
            case _:
                for number, entry in lines(file):
                    if number > done:
                        yield Placed(ImportRow(COMMAND, f"line {number}", entry or {}), [name, number])


def command(row: ImportRow, at: datetime) -> Mapped:
    """The command of a line, with its event time or `at`; raises CommandRejected for any other line.

    Without an `event_id`, the id is derived from the line's position and text, so the same line at the same position is
    the same event.
    """
    if not row.value:
        raise CommandRejected("the line is not a JSON object")
    (parsed,) = parse_batch(msgspec.json.encode([row.value]), "application/json")
    if isinstance(parsed, CommandRejected):
        raise parsed
    occurred_at = parsed.occurred_at
    if occurred_at is not None and occurred_at.tzinfo is None:
        raise CommandRejected("a time needs a zone: write 2026-01-31T12:00:00Z", "occurred_at")
    line = msgspec.json.encode(row.value, order="deterministic").decode()
    return Mapped([Step(parsed, f"{COMMAND}\0{row.name}\0{line}", occurred_at or at)])


def _jsonl_files(location: Path) -> list[Path]:
    """The files, in the order of their names; raises Unusable if there are none."""
    if location.is_file():
        return [location]
    if not location.is_dir():
        raise Unusable(f"there is no file or folder {location}")
    files = [path for path in islice(location.rglob("*.jsonl"), MAX_FILES + 1) if path.is_file()]
    if not files:
        raise Unusable(f"there is no .jsonl file below {location}")
    if len(files) > MAX_FILES:
        raise Unusable(f"{location} contains over {MAX_FILES:,} .jsonl files; import its folders one by one")
    return sorted(files, key=lambda path: path.relative_to(location).as_posix())


def _recognised(file: Path) -> Format:
    """The format of a file, detected from its lines."""
    if file.as_posix().endswith(TRANSCRIPT.as_posix()):
        return Format.ANTIGRAVITY
    for _, entry in islice(lines(file), LOOKED_AT):
        kind = str((entry or {}).get("type", "")).upper()
        if entry is not None and claude_code.is_one(entry):
            return Format.CLAUDE_CODE
        if kind in ("USER_INPUT", "PLANNER_RESPONSE"):
            return Format.ANTIGRAVITY
    return Format.COMMANDS


TURN = "turn"


def observed(session_id: str, project: str, prompt: str, response: str) -> Observe:
    """The command that records a turn; its event id is derived from session and prompt."""
    name = blake2b(f"{session_id}\0{prompt}".encode(), digest_size=16).hexdigest()
    data = {"tool_name": "conversation", "tool_input": prompt, "tool_output": response}
    return hook_observation(session_id, project, "post_tool_use", data, agent_id=AGENT, event_id=name)


def turn(row: ImportRow, at: datetime) -> Mapped:
    """The turn of a row, with the time `at`, because transcripts have no times."""
    record = row.value
    if reason := text(record, "reason"):
        raise CommandRejected(reason)
    session_id, cwd = needed(record, "session_id"), text(record, "project")
    project = sessions.folder_project(cwd) or cwd or UNKNOWN_PROJECT
    steps: list[Step] = []
    if record.get("first"):
        steps.append(sessions.started(project, session_id, at, cwd=cwd, agent_id=AGENT, agent_type=ANTIGRAVITY))
    command = observed(session_id, project, needed(record, "prompt"), needed(record, "response"))
    steps.append(Step(command, f"{TURN}\0{row.name}", at))
    return Mapped(steps)


def conversation_rows(file: Path) -> Iterator[ImportRow]:
    """The turns of one conversation; for one that is too long, a row that says so."""
    if file.stat().st_size > MAX_BYTES:
        reason = f"the file has over {MAX_BYTES >> 20} MiB, the limit of a conversation"
        yield ImportRow(TURN, str(file), {"reason": reason})
        return
    folder = file.parents[len(TRANSCRIPT.parts) - 1] if file.as_posix().endswith(TRANSCRIPT.as_posix()) else None
    parsed = conversation(file, file.stem if folder is None else folder.name)
    for number, exchange in enumerate(parsed.turns):
        of_session = {"session_id": parsed.session_id, "project": parsed.folder, "first": number == 0}
        yield ImportRow(TURN, f"{parsed.session_id} turn {number + 1}", {**exchange._asdict(), **of_session})


TRANSCRIPT = Path(".system_generated/logs/transcript.jsonl")
MAX_BYTES = 64 << 20
"""A larger transcript is skipped."""
_REQUEST = re.compile(r"<USER_REQUEST>(.*?)</USER_REQUEST>", re.DOTALL)
_MAPPING = re.compile(r"(?:^|\n)[ \t]*\[?((?:file:|/|~|[A-Za-z]:[\\/])[^\]\n]*?)\]?[ \t]+->[ \t]+\[?[^\]\n]+\]?")
_TEXT_FIELDS = ("content", "text", "message", "response", "user_response", "prompt")
_KIND_FIELDS = ("type", "step_type", "kind", "source")


class Turn(NamedTuple):
    """A prompt and its answer."""

    prompt: str
    response: str


class Conversation(NamedTuple):
    """One conversation: its id, its working folder if known, and its turns."""

    id: str
    folder: str
    turns: list[Turn]

    @property
    def session_id(self) -> str:
        """The session for this conversation."""
        return f"antigravity_{self.id[:18].replace('-', '_')}"


def brain(home: Path) -> Path:
    """The folder with a user's conversations."""
    return home / ".gemini" / "antigravity" / "brain"


def conversations(folder: Path, only: str = "") -> Iterator[Conversation]:
    """The conversations below a folder, by id; `only` the one of that id."""
    for subfolder in sorted(folder.iterdir()):
        path = subfolder / TRANSCRIPT
        if (not only or subfolder.name == only) and path.is_file() and path.stat().st_size <= MAX_BYTES:
            yield conversation(path, subfolder.name)


def conversation(path: Path, name: str) -> Conversation:
    """The conversation of that id in a transcript."""
    lines = path.read_text("utf-8", "replace").splitlines()
    return Conversation(name, folder_of(lines[0]) if lines else "", list(turns(lines)))


def turns(lines: Iterable[str]) -> Iterator[Turn]:
    """The turns of a transcript; a prompt without an answer is ignored."""
    prompt = ""
    for line in lines:
        entry = _entry(line)
        kinds = {str(entry.get(field, "")).upper() for field in _KIND_FIELDS}
        if "USER_INPUT" in kinds:
            content = _text(entry)
            request = _REQUEST.search(content)
            prompt = (request[1] if request else content).strip()
        elif "PLANNER_RESPONSE" in kinds and prompt and (response := _text(entry)):
            yield Turn(prompt, response)
            prompt = ""


def folder_of(line: str) -> str:
    """The folder that a transcript's first line maps to a name; empty if it maps none."""
    match = _MAPPING.search(_text(_entry(line)))
    return match[1].strip().removeprefix("file://") if match else ""


def _entry(line: str) -> dict[str, Any]:
    try:
        return as_object(json.loads(line))
    except ValueError:
        return {}


def _text(entry: dict[str, Any]) -> str:
    """The text of a line, in any of the fields that versions of Antigravity use."""
    for field in _TEXT_FIELDS:
        value: Any = entry.get(field)
        if isinstance(value, dict):
            value = _text(cast("dict[str, Any]", value))
        if isinstance(value, str) and value.strip():
            return value
    return ""
