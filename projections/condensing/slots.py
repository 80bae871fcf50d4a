"""Slot reflection: updates an agent's slots from observations, like agentmemory.

Guarantee: pure; no content returned exceeds its slot's limit, and no line of `project_context` is lost that says more
than the name of a file. As long as everything fits, reflecting again on the same observations changes nothing but the
time in `session_patterns`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime
from typing import Any, cast

from ingest.platform.clock import utc_text
from projections.condensing.summaries import modified_first
from projections.nouns.observation import Observation
from projections.nouns.slot import Slot
from projections.nouns.trust import is_data, is_stated
from projections.text.accounts import MODIFYING, in_time, prose, user_words
from projections.text.claims import is_claim, stands_alone
from projections.text.sentences import shortened, statements

PENDING, PATTERNS, CONTEXT = "pending_items", "session_patterns", "project_context"
_LINE_CHARS = 200
"""Of a line, so that ten fit the slot's usual 2,000."""
_RULES, _NEW_RULES = 10, 3
"""Lines of `project_context` from which none is added, and how many are added at a time: every context has them."""
_RULE = re.compile(
    r"\b(?:always|must|from now on|(?:make|be) sure)\b|\A(?:never|do not|don['’]t|avoid|ensure)\b",
    re.IGNORECASE,
)
_RULE_WORDS = 6
"""A shorter sentence does not say when it holds ("You must sign.")."""
_OF_A_REPLY = re.compile(r"\A(?:so|and|but|then|also|ok|okay|no|yes)\b", re.IGNORECASE)
_BULLET = "- "
_CHANGED, _CHANGED_FILES = "Changed last: ", 3
"""The line of `project_context` that names the files changed last, and how many."""


def reflect(observations: Sequence[Observation], slots: Mapping[str, Slot], now: datetime) -> dict[str, str]:
    """Returns the new content of each slot that changes. A slot that is not in `slots` is not written.

    `pending_items` gains what speaks of a todo, the oldest lines giving way; `session_patterns` becomes the counts of
    errors and commands, if there were any; `project_context` names the files changed last and gains rules that a user
    stated while the agent worked; it loses lines that are only a file of this session, which earlier releases added.
    """
    ordered = sorted(observations, key=in_time)
    written: dict[str, str] = {}
    if pending := slots.get(PENDING):
        written[PENDING] = _pending(pending, ordered)
    kinds = [observation.kind for observation in ordered]
    errors, commands = kinds.count("error"), kinds.count("command_run")
    if (patterns := slots.get(PATTERNS)) and (errors or commands):
        time = utc_text(now, "seconds")
        written[PATTERNS] = f"{time}: {errors} error, {commands} command_run"[: patterns.size_limit]
    if context := slots.get(CONTEXT):
        worked = any(item.files or item.kind == "command_run" for item in ordered)
        written[CONTEXT] = _context(context, ordered, _rules(filter(is_stated, ordered)) if worked else [])
    return {label: content for label, content in written.items() if content != slots[label].content}


def contributed(observations: Sequence[Observation]) -> dict[str, set[str]]:
    """Returns what reflecting on these observations may have put into each slot, as `without` knows it."""
    ordered = sorted(observations, key=in_time)
    todos = (todo for observation in ordered for todo in _todos(observation, printed=True))
    context = {*_rules(ordered), *modified_first(ordered)}
    return {PENDING: {_folded(shortened(todo, _LINE_CHARS)) for todo in todos}, CONTEXT: context}


def without(label: str, content: str, contributions: Set[str]) -> str:
    """Returns a slot's content without the lines that were contributed; the others as they are."""

    def is_contributed(line: str) -> bool:
        if label == CONTEXT and line.startswith(_CHANGED):
            return not contributions.isdisjoint(line.removeprefix(_CHANGED).split(", "))
        return (_folded(line) if label == PENDING else _bare(line)) in contributions

    return "\n".join(line for line in content.split("\n") if not is_contributed(line))


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


def _todos(observation: Observation, *, printed: bool = False) -> list[str]:
    """What an observation says is to do; nothing unless its title or narrative contains "todo".

    A todo tool's open items one by one, else of what somebody said the first line that has the word. The word in what
    a tool read or wrote is nothing that an agent has to do; with `printed` it counts, as it did in earlier releases.
    """
    if "todo" not in f"{observation.title}\n{observation.narrative}".lower():
        return []
    tool_input = observation.data.get("tool_input")
    listed = cast(dict[str, Any], tool_input).get("todos") if isinstance(tool_input, dict) else None
    if not isinstance(listed, list):
        is_text_of_call = not observation.data and observation.role in ("tool_call", "tool_result")
        if not printed and (is_text_of_call or is_data(observation.trust)):
            return []
        return [line for line in prose(observation).splitlines() if "todo" in line.lower()][:1]
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


def _bare(line: str) -> str:
    """A line without its bullet."""
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


def _rules(ordered: Iterable[Observation]) -> list[str]:
    """What users say that always holds, each once."""
    prompts = map(user_words, ordered)
    rules = [text for prompt in prompts for text in statements(prompt) if "<" not in text]
    rules = [text for text in rules if _RULE.search(text) and not _OF_A_REPLY.match(text)]
    rules = [text for text in dict.fromkeys(rules) if len(text) <= _LINE_CHARS and len(text.split()) >= _RULE_WORDS]
    return [rule for rule in rules if is_claim(rule) and stands_alone(rule)]


def _context(slot: Slot, ordered: Sequence[Observation], rules: Sequence[str]) -> str:
    """The content without bare files, with the newest rules that it lacks and the files changed last, if they fit."""
    changed = modified_first(item for item in reversed(ordered) if item.kind in MODIFYING)[:_CHANGED_FILES]
    lines = [line for line in slot.content.splitlines() if not (changed and line.startswith(_CHANGED))]
    existing, files = set(map(_bare, lines)), set(modified_first(ordered))
    lines = [line for line in lines if _bare(line) not in files]
    new = [_BULLET + rule for rule in rules if rule not in existing][-_NEW_RULES:] if len(lines) < _RULES else []
    for line in [*new, *([_CHANGED + ", ".join(changed)] if changed else ())]:
        if len("\n".join([*lines, line])) <= slot.size_limit:
            lines.append(line)
    return "\n".join(lines)
