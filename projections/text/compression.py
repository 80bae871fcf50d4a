"""Rule-based compression of an observation: title, type, files, concepts, facts, narrative, importance.

Guarantee: a deterministic function of its arguments that never raises on JSON-like input. Work is linear in the input;
files, concepts and facts look at its first `SCAN_CHARS` characters only, and never say the name of a field, the name of
the tool, what was searched for by a pattern, JSON, or a data URL, which is named by a marker wherever it stood.

Hook-like data (tool calls, prompts, as agentmemory's hooks send them) is titled by its tool and narrated as
`prompt | input | output`; any other observation is titled and narrated by its own content.
"""

import re
from functools import lru_cache
from itertools import chain
from typing import Any

import msgspec

from ingest.secrets.scrub import is_only_marks, without_marks
from projections.text.payloads import Reading, as_text, named
from projections.text.words import MAX_FILES, input_files, names_in, words

TITLE_CHARS = 80
SUBTITLE_CHARS = 120
NARRATIVE_CHARS = 400
CONFIDENCE = 0.3
"""Below every model's and person's own: rules guessed this."""
SCAN_CHARS = 8_000
"""A hook cuts its longest text here; more of one observation adds no new topic worth the time."""

_HOOK_FIELDS = ("tool_name", "tool_input", "tool_output", "error", "prompt", "hookType")
_TOOL_HOOKS = words("post_tool_use post_tool_failure")
_OTHER_HOOKS = words(
    "prompt_submit pre_tool_use pre_compact subagent_start subagent_stop notification task_completed stop"
    " session_start session_end"
)
VALID_TYPES = words(
    "error conversation subagent notification web_fetch search command_run file_edit file_write file_read"
    " decision discovery task image other"
    " bugfix feature refactor change pattern gotcha"  # what agent-memory's clients call theirs
    " security_alert security_note sensitive"  # and claude-mem's
)
_HOOK_TYPES = {
    "post_tool_failure": "error",
    "prompt_submit": "conversation",
    "subagent_stop": "subagent",
    "task_completed": "subagent",
    "notification": "notification",
}
_ROLES = {
    **dict.fromkeys(words("prompt prompt_submit user user_prompt user_message"), "user"),
    **dict.fromkeys(words("tool_use tool_call pre_tool_use post_tool_use post_tool_failure"), "tool_call"),
    **dict.fromkeys(words("result tool_result tool_output"), "tool_result"),
    **dict.fromkeys(words("message assistant assistant_message response answer stop"), "assistant"),
}
"""Who said it, by what a client calls the kind of an observation."""
_NAME_TYPES = (
    ("web_fetch", ("fetch", "http", "web")),
    ("search", ("grep", "search", "glob", "find")),
    ("command_run", ("bash", "shell", "exec", "run")),
    ("file_edit", ("edit", "update", "patch", "replace")),
    ("file_write", ("write", "create")),
    ("file_read", ("read", "view")),
    ("subagent", ("task", "agent")),
)
_IMPORTANCE = {
    "error": 8,
    "decision": 8,
    "security_alert": 8,
    "discovery": 7,
    "conversation": 6,
    "task": 6,
    "file_edit": 6,
    "file_write": 6,
    # Low, yet a file's history still shows it (from 4 up) and auto-forget spares it (drops up to 2).
    "file_read": 4,
    "search": 4,
    "web_fetch": 4,
    "notification": 4,
}

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SENTENCE_END = re.compile(r"[.!?。！？\n](?:(?<=[。！？\n])|(?=\s))")
"""Begins with the characters, which makes the search ten times as fast."""
_end = re.Match[str].end


class Compressed(msgspec.Struct, frozen=True):
    """The searchable short form of one observation; lists are distinct, in order of appearance."""

    title: str
    subtitle: str | None
    type: str
    files: tuple[str, ...]
    concepts: tuple[str, ...]
    facts: tuple[str, ...]
    narrative: str
    importance: int
    confidence: float = CONFIDENCE
    role: str = ""
    """`user`, `assistant`, `tool_call` or `tool_result`, as far as the kind tells."""


class _Hook(msgspec.Struct, frozen=True):
    """The parts of hook-like data that are read; a part that its hook type does not carry is None."""

    kind: str | None
    tool: str | None = None
    input: Any = None
    output: Any = None
    prompt: Any = None


def compress(kind: str, content: str, data: dict[str, Any] | None = None) -> Compressed:
    """Returns the short form of an observation.

    `kind` stays as the type when it is one of `VALID_TYPES`; else the hook, then the words of the tool's name or of
    `kind`, decide. Importance is the type's (5 unless listed), one more when the text decides, fixes or demands
    something and the type is not a reading one; at most 10.
    """
    data = data or {}
    hook = _hook(kind, data)
    narrative = ""
    if hook:
        parts = (as_text(part, NARRATIVE_CHARS) for part in (hook.prompt, hook.input, hook.output))
        narrative = _cut(" | ".join(filter(None, parts)), NARRATIVE_CHARS)
    visible = named(content.strip())
    narrative = narrative or _cut(visible or as_text(data, NARRATIVE_CHARS), NARRATIVE_CHARS)
    reading = Reading(is_tool_use=hook is not None)
    beside = reading.value(data, SCAN_CHARS) if data else ""
    text = reading.text(content[:SCAN_CHARS]).strip() if content.strip() else beside
    if kind in VALID_TYPES and (hook is None or hook.kind not in _HOOK_TYPES):
        type_ = kind
    elif hook and hook.kind in _HOOK_TYPES:
        type_ = _HOOK_TYPES[hook.kind]
    else:
        type_ = type_of_name(((hook and hook.tool) or ("" if kind in _OTHER_HOOKS else kind))[:SUBTITLE_CHARS])
    input_ = hook.input if hook else None
    if hook:
        title = hook.tool or hook.kind or "observation"
    else:
        title = _headline(text if visible.startswith(("{", "[", '"')) else visible) or kind
    names = names_in(text, reading.names)
    if (plain := without_marks(text)) is not text:
        names = names._replace(concepts=names_in(plain, reading.names).concepts)
    if input_ is not None:
        files = input_files(input_, reading.names, SCAN_CHARS)
    elif content and beside:
        files = tuple(dict.fromkeys([*names.files, *names_in(beside, reading.names).files]))[:MAX_FILES]
    else:
        files = names.files
    importance = _IMPORTANCE.get(type_, 5)
    if importance >= 5:
        importance += names.is_weighty
    return Compressed(
        title=_cut(title, TITLE_CHARS) or "observation",
        subtitle=_cut(as_text(input_, SUBTITLE_CHARS), SUBTITLE_CHARS) or None,
        type=type_,
        files=files,
        concepts=names.concepts,
        facts=names.facts,
        narrative=narrative,
        importance=importance,
        role=_ROLES.get(kind, ""),
    )


def spoken(text: str) -> str:
    """What a text says: itself, unless there is JSON in it, of which the values are left, or embedded data."""
    return Reading().text(text).strip()


def told_by(value: Any) -> str:
    """What the texts of a JSON value say, or of JSON text, as far as SCAN_CHARS go; "" for nothing."""
    return Reading(is_tool_use=True).value(value, SCAN_CHARS).strip() if value else ""


def _hook(kind: str, data: dict[str, Any]) -> _Hook | None:
    """Returns the hook's parts, or None for a native observation."""
    hook_type = data.get("hookType")
    hook_kind = (
        hook_type if isinstance(hook_type, str) else kind if kind in _TOOL_HOOKS or kind in _OTHER_HOOKS else None
    )
    if hook_kind is None and (not data or all(data.get(field) is None for field in _HOOK_FIELDS)):
        return None
    tool = input_ = output = prompt = None
    if hook_kind is None or hook_kind in _TOOL_HOOKS:
        tool = name if isinstance(name := data.get("tool_name"), str) else None
        input_, output = data.get("tool_input"), data.get("tool_output")
        output = data.get("error") if output is None else output
    if hook_kind is None or hook_kind == "prompt_submit":
        prompt = data.get("prompt")
    return _Hook(hook_kind or kind or None, tool, input_, output, prompt)


@lru_cache(maxsize=1024)
def type_of_name(name: str) -> str:
    """Returns the type whose word is a whole segment, or the beginning or the end, of the snake-cased name."""
    name = _CAMEL.sub("_", name).replace("-", "_").replace(" ", "_").lower()
    segments = name.split("_")
    for type_, parts in _NAME_TYPES:
        if name.startswith(parts) or name.endswith(parts) or not set(parts).isdisjoint(segments):
            return type_
    return "other"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _headline(content: str) -> str:
    """Returns the first sentence or line, whichever ends first, that is more than a removed secret's mark; or ""."""
    head = content.lstrip()[: 4 * TITLE_CHARS]
    start = 0
    for end in chain(map(_end, _SENTENCE_END.finditer(head)), [len(head)]):
        if (first := head[start:end].strip()) and not is_only_marks(first):
            return first
        start = end
    return ""
