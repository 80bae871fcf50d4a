"""Slot reflection: what observations say that belongs into an agent's slots, as agentmemory does it.

Guarantee: pure; no content returned exceeds its slot's limit, and no line of `project_context` is lost. As long as
everything fits, reflecting again on the same observations changes nothing but the time in `session_patterns`.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import UTC, datetime
from typing import Any, cast

from projections.compression.accounts import in_time, prose
from projections.compression.sentences import shortened
from projections.condensing.summaries import modified_first
from projections.documents.observations import Observation
from projections.documents.slots import Slot
from projections.documents.trust import is_data

PENDING, PATTERNS, CONTEXT = "pending_items", "session_patterns", "project_context"
NEW_FILES = 20
_LINE_CHARS = 200
"""Of a pending item, so that ten fit the slot's usual 2,000."""
_BULLET = "- "


def reflect(observations: Sequence[Observation], slots: Mapping[str, Slot], now: datetime) -> dict[str, str]:
    """Returns the new content of each slot that changes. A slot that is not in `slots` is not written.

    `pending_items` gains what speaks of a todo, the oldest lines giving way; `session_patterns` becomes the counts of
    errors and commands, if there were any; `project_context` gains the names of new files, as many as fit.
    """
    ordered = sorted(observations, key=in_time)
    written: dict[str, str] = {}
    if pending := slots.get(PENDING):
        written[PENDING] = _pending(pending, ordered)
    kinds = [observation.kind for observation in ordered]
    errors, commands = kinds.count("error"), kinds.count("command_run")
    if (patterns := slots.get(PATTERNS)) and (errors or commands):
        time = now.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        written[PATTERNS] = f"{time}: {errors} error, {commands} command_run"[: patterns.size_limit]
    if context := slots.get(CONTEXT):
        written[CONTEXT] = _context(context, ordered)
    return {label: content for label, content in written.items() if content != slots[label].content}


def contributed(observations: Sequence[Observation]) -> dict[str, set[str]]:
    """Returns what reflecting on these observations may have put into each slot, as `without` knows it."""
    ordered = sorted(observations, key=in_time)
    todos = (todo for observation in ordered for todo in _todos(observation))
    return {PENDING: {_folded(shortened(todo, _LINE_CHARS)) for todo in todos}, CONTEXT: set(modified_first(ordered))}


def without(label: str, content: str, contributions: Set[str]) -> str:
    """Returns a slot's content without the lines that were contributed; the others as they are."""
    key_of = _folded if label == PENDING else _file_in
    return "\n".join(line for line in content.split("\n") if key_of(line) not in contributions)


def _pending(slot: Slot, ordered: Iterable[Observation]) -> str:
    """The content with a line for each todo it does not have yet."""
    lines = slot.content.splitlines()
    folded = {_folded(line) for line in lines}
    added: list[str] = []
    for todo in (todo for observation in ordered for todo in _todos(observation)):
        line = _BULLET + shortened(todo, _LINE_CHARS)
        if _folded(line) not in folded:
            folded.add(_folded(line))
            added.append(line)
    return _tail(lines + added, slot.size_limit) if added else slot.content


def _todos(observation: Observation) -> list[str]:
    """What an observation says is to do; nothing unless its title or narrative contains "todo".

    A todo tool's open items one by one, else of what somebody said the first line that has the word. The word in what
    a tool read or wrote is nothing that an agent has to do.
    """
    if "todo" not in f"{observation.title}\n{observation.narrative}".lower():
        return []
    tool_input = observation.data.get("tool_input")
    listed = cast(dict[str, Any], tool_input).get("todos") if isinstance(tool_input, dict) else None
    if not isinstance(listed, list):
        lines = [] if is_data(observation.trust) else prose(observation).splitlines()
        return [line for line in lines if "todo" in line.lower()][:1]
    todos: list[str] = []
    for item in cast(list[Any], listed):
        fields = cast(dict[str, Any], item) if isinstance(item, dict) else {"content": item}
        content = fields.get("content")
        if isinstance(content, str) and content and fields.get("status") != "completed":
            todos.append(content)
    return todos


def _folded(line: str) -> str:
    """A line as compared with others: without bullet, case and spacing."""
    return " ".join(line.strip().removeprefix(_BULLET).casefold().split())


def _file_in(line: str) -> str:
    """The file that a line names."""
    return line.strip().removeprefix(_BULLET)


def _tail(lines: Sequence[str], size_limit: int) -> str:
    """The last lines that fit together; when not even the last one fits, its end."""
    last: list[str] = []
    room = size_limit
    for line in reversed(lines):
        room -= len(line) + bool(last)
        if room < 0:
            break
        last.append(line)
    return "\n".join(reversed(last)) if last else lines[-1][len(lines[-1]) - size_limit :]


def _context(slot: Slot, ordered: Iterable[Observation]) -> str:
    """The content with the file names it does not have yet. It is never cut: people write here too."""
    content, existing = slot.content, {_file_in(line) for line in slot.content.splitlines()}
    for file in [file for file in modified_first(ordered) if file not in existing][:NEW_FILES]:
        line_end = "\n" if content and not content.endswith("\n") else ""
        longer = f"{content}{line_end}{_BULLET}{file}"
        if len(longer) <= slot.size_limit:
            content = longer
    return content
