"""JSON lines: native commands, transcripts of Claude Code and of Antigravity; a file, or all below a folder."""

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path

import msgspec

from api.importing import antigravity, claude_code
from api.importing.antigravity import TRANSCRIPT, brain
from api.importing.mapping import ImportRow, Mapped, Step
from api.importing.source import Cursor, Placed, Unusable, lines
from ingest.commands.parse import parse_batch
from ingest.errors import CommandRejected

MAX_FILES = 100_000
LOOKED_AT = 50
"""Lines by which a file is recognised."""


class Format(StrEnum):
    """What the lines are (an enum, because typer takes no list of literals)."""

    AUTO = "auto"
    COMMANDS = "commands"
    CLAUDE_CODE = "claude-code"
    ANTIGRAVITY = "antigravity"


SYSTEM, COMMAND = "jsonl", "command"
SYSTEMS = {
    Format.AUTO: SYSTEM,
    Format.COMMANDS: SYSTEM,
    Format.CLAUDE_CODE: claude_code.SYSTEM,
    Format.ANTIGRAVITY: antigravity.SYSTEM,
}
"""The system that events are named after: a transcript's are the same, whichever way it is imported."""
USUAL = {
    Format.CLAUDE_CODE: lambda: Path.home() / ".claude" / "projects",
    Format.ANTIGRAVITY: lambda: brain(Path.home()),
}
"""Where transcripts are, for an import that does not say."""


class LinesSource:
    """Rows of `.jsonl` files, by path; a cursor is a path and a line of it."""

    def __init__(self, place: Path, form: Format) -> None:
        self.fingerprint, self.notes = "", list[str]()
        self._form = form
        self._root = place if place.is_dir() else place.parent
        self._files = _found(place)
        self._at = datetime(1970, 1, 1, tzinfo=UTC)
        self.system = SYSTEMS[form]

    def total(self) -> None:
        """Not known before all is read."""
        return

    def rows(self, after: Cursor) -> Iterator[Placed]:
        """The rows after a cursor; raises Unusable."""
        path, line = (str(after[0]), int(after[1])) if after else ("", 0)
        for file in self._files:
            name = file.relative_to(self._root).as_posix()
            if name < path:
                continue
            try:
                yield from self._file(file, name, line if name == path else 0)
            except OSError as error:
                raise Unusable(f"{file} cannot be read: {error.strerror}") from None

    def mapped(self, row: ImportRow) -> Mapped:
        """What a row of the file that is read says; raises CommandRejected when it cannot be taken."""
        match self.system:
            case claude_code.SYSTEM:
                return claude_code.mapped(row)
            case antigravity.SYSTEM:
                return antigravity.mapped(row, self._at)
            case _:
                return command(row, self._at)

    def close(self) -> None:
        """Files are closed where they are read."""

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
                for number, row in enumerate(antigravity.rows(file), 1):
                    if number > done:
                        yield Placed(row, [name, number])
            case _:
                for number, entry in lines(file):
                    if number > done:
                        yield Placed(ImportRow(COMMAND, f"line {number}", entry or {}), [name, number])


def command(row: ImportRow, at: datetime) -> Mapped:
    """The command of a line, which happened when it says, else `at`; raises CommandRejected when it is none.

    Without an `event_id` it is known by its place and its text: the same line in the same place is the same event.
    """
    if not row.value:
        raise CommandRejected("the line is no JSON object")
    (parsed,) = parse_batch(msgspec.json.encode([row.value]), "application/json")
    if isinstance(parsed, CommandRejected):
        raise parsed
    occurred_at = parsed.occurred_at
    if occurred_at is not None and occurred_at.tzinfo is None:
        raise CommandRejected("a time needs a zone: write 2026-01-31T12:00:00Z", "occurred_at")
    line = msgspec.json.encode(row.value, order="deterministic").decode()
    return Mapped([Step(parsed, f"{COMMAND}\0{row.name}\0{line}", occurred_at or at)])


def _found(place: Path) -> list[Path]:
    """The files, in the order of their names; raises Unusable when there is none."""
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise Unusable(f"there is no file or folder {place}")
    files = sorted(path for path in islice(place.rglob("*.jsonl"), MAX_FILES + 1) if path.is_file())
    if not files:
        raise Unusable(f"there is no .jsonl file below {place}")
    if len(files) > MAX_FILES:
        raise Unusable(f"there are over {MAX_FILES:,} .jsonl files below {place}; import its folders one by one")
    return sorted(files, key=lambda path: path.relative_to(place).as_posix())


def _recognised(file: Path) -> Format:
    """What a file's lines are, by what they say."""
    if file.as_posix().endswith(TRANSCRIPT.as_posix()):
        return Format.ANTIGRAVITY
    for _, entry in islice(lines(file), LOOKED_AT):
        kind = str((entry or {}).get("type", "")).upper()
        if entry is not None and claude_code.is_one(entry):
            return Format.CLAUDE_CODE
        if kind in ("USER_INPUT", "PLANNER_RESPONSE"):
            return Format.ANTIGRAVITY
    return Format.COMMANDS
