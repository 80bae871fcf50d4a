"""Spans and log records of agents as the observations of their sessions. Pure.

The shapes are those that the hooks of coding agents record: a prompt, a tool call with its input and its result or
error, an answer. The names that senders use are in `table.toml`.

A call of a model repeats the history of its session; only the messages after the last answer are new. Content that
arrives again, in another span or in another request, has the same event id, so it is stored once.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from api.otlp.wire import Record
from ingest.events.envelope import UNCLAIMED
from ingest.nouns.command import MAX_NAME_CHARS
from ingest.nouns.observation import Observe
from ingest.platform.files import toml_beside

_TABLE: dict[str, Any] = toml_beside(__file__, "table.toml")
_EMPTY: tuple[Any, ...] = (None, "", [], {}, *_TABLE["redacted"])
_PROMPT, _ANSWER, _ERROR, _CALL, _FAILED_CALL = _TABLE["observations"]
_STATED = ("sender", "model", "input_tokens", "output_tokens")


class _Fields:
    """The values of an object by the fields of the table: the first that is not empty, or None."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def __getattr__(self, field: str) -> Any:
        names = _TABLE["fields"][field]
        return next((value for name in names if (value := self.values.get(name)) not in _EMPTY), None)


class _Part(NamedTuple):
    """A part of a message: a text, a call of a tool or its result."""

    type: str
    call: str
    name: str
    value: Any


def observations(records: Iterable[Record], *, is_known: bool = False) -> list[Observe]:
    """Return what agents did, in the order in which it happened. `is_known`: the agent is known, so the names in the
    records are ignored."""
    sessions: dict[str, str] = {}
    items: dict[tuple[str, ...], Observe] = {}
    for record in records:
        fields = _Fields(record.attributes)
        session = _name(fields.session)
        if session:
            sessions.setdefault(record.trace, session)
        kind = _TABLE["kinds"].get(str(fields.kind))
        for item in _READERS.get(kind, partial(_stated, kind))(record, fields) if kind else ():
            item = replace(
                item,
                project=_name(fields.project),
                session_id=session or record.trace,
                agent_id="" if is_known else _name(fields.agent),
                user_id=_name(fields.user),
                trace=record.trace,
                # the tokens are those of the call that gave an answer
                metadata={
                    name: text
                    for name in (_STATED if item.content else _STATED[:1])
                    if (text := _name(getattr(fields, name)))
                },
            )
            first = items.setdefault((item.project, item.session_id, item.event_id), item)
            if (
                "tool_name" not in first.data
            ):  # the first span of a tool call can have its error, and the next one its name
                first.data.update(item.data)
    return [
        replace(item, session_id=sessions.get(item.session_id, item.session_id))
        for item in sorted(items.values(), key=lambda item: item.occurred_at or UNCLAIMED)
        if item.data.keys() != {"error"}  # of a tool that another span names, in another request
    ]


def _stated(kind: str, record: Record, fields: _Fields) -> Iterator[Observe]:
    # Claude Code exports a prompt as a span, and as a log record in this span
    when = "" if record.trace and kind != _ANSWER else record.end
    return _said(record, kind, getattr(fields, kind) or record.error, record.trace, record.span, when)


def _said(record: Record, kind: str, text: Any, *key: Any) -> Iterator[Observe]:
    if text := _text(text):
        is_prompt = kind == _PROMPT
        yield Observe(
            event_id=_key(kind, text, *key),
            occurred_at=_when(record.start if is_prompt else record.end),
            kind=kind,
            content="" if is_prompt else text,
            data={"prompt": text} if is_prompt else {},
        )


def _tool(record: Record, fields: _Fields) -> Iterator[Observe]:
    if record.trace and fields.kind in _TABLE["left_to_spans"]:
        return
    named = {name: value for field, name in _TABLE["inputs"].items() if (value := record.attributes.get(field))}
    content = {"tool_input": named or fields.tool_input}
    output = _decoded(fields.tool_output)
    failed = record.error is not None or fields.success in (False, "false")
    if failed or _object(_object(output).get("data")).get("status") == "error":  # of LangChain
        content["error"] = fields.error or _unwrapped(output) or record.error
    else:
        content["tool_output"] = _unwrapped(output)
    yield from _called(fields.tool_call or (record.trace, record.span), record.end, fields.tool_name, content)


def _called(call: Any, at: int, name: Any, content: dict[str, Any]) -> Iterator[Observe]:
    values = {"tool_name": _name(name)} | {field: _decoded(value) for field, value in content.items()}
    data = {field: value for field, value in values.items() if value not in _EMPTY}
    kind = _FAILED_CALL if "error" in data else _CALL
    if len(data) > bool(name) and not str(name).startswith(tuple(_TABLE["own_tools"])):
        yield Observe(event_id=_key(call), occurred_at=_when(at), kind=kind, data=data)


def _model(record: Record, fields: _Fields) -> Iterator[Observe]:
    history = [message for message in _messages(fields, "input_messages") if message.role not in _TABLE["instructions"]]
    calls: dict[str, _Part] = {}
    new: list[list[_Part]] = []
    for message in reversed(history):
        parts = list(_parts(message))
        if message.role in _TABLE["answers"]:
            calls = {part.call: part for part in parts}
            break
        new.insert(0, parts)
    for parts in new:
        for part in parts:
            if part.type == "result" and fields.sender not in _TABLE["tools_in_spans"]:
                call = calls.get(part.call, part._replace(value=None))
                content = {"tool_input": call.value, "tool_output": _unwrapped(part.value)}
                yield from _called(part.call, record.start, call.name or part.name, content)
        yield from _said(record, _PROMPT, _joined(parts), record.trace, len(history))
    answer = _joined(part for message in _messages(fields, "output_messages") for part in _parts(message))
    yield from _said(record, _ANSWER, answer or fields.conversation, record.trace, len(history))
    yield from _said(record, _ERROR, fields.error or record.error, record.trace)


_READERS = {"model": _model, "tool": _tool}


def _name(value: Any) -> str:
    name = str(value or "")[:MAX_NAME_CHARS]
    return "" if name.startswith("unknown_service") else name  # what SDKs call a service without a name


def _key(*parts: Any) -> str:
    """Return the event id of something that these parts identify within a session."""
    return "otlp-" + blake2b("\0".join(map(str, parts)).encode(), digest_size=16).hexdigest()


def _when(nanoseconds: int) -> datetime | None:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC) if nanoseconds > 0 else None


def _messages(fields: _Fields, name: str) -> list[_Fields]:
    """Return the messages in a list, in JSON text, or in numbered attributes."""
    value = _decoded(getattr(fields, name)) or _numbered(fields.values, _TABLE["numbered"][name])
    return list(map(_Fields, _listed(value)))


def _numbered(attributes: Mapping[str, Any], prefixes: list[str]) -> dict[str, Any]:
    """Return the attributes whose names begin so as a tree."""
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        if prefix := next(filter(name.startswith, prefixes), ""):
            node = tree
            *path, last = name.removeprefix(prefix).split(".")
            for step in path:
                node = _object(node.setdefault(step, {}))
            node[last] = value
    return tree


def _listed(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list or in a tree of numbered attributes, without wrappers; a text as an object."""
    if tree := _object(value):
        in_order = sorted(tree, key=lambda name: (len(name), name))
        value = [tree[name] for name in in_order] if all(map(str.isdecimal, tree)) else [tree]
    if isinstance(value, str):
        value = [{"type": "text", "text": value}]
    objects = map(_object, cast(list[Any], value) if isinstance(value, list) else ())
    return [(len(item) == 1 and _object(next(iter(item.values())))) or item for item in objects if item]


def _parts(message: _Fields) -> Iterator[_Part]:
    """Yield the texts, calls and results in a message of any sender."""
    content = message.parts
    if call := message.result_of:
        yield _Part("result", str(call), _name(message.part_name), content)
        return
    for part in _listed(content) + _listed(message.calls):
        of = _Fields(part | _object(part.get("function")))
        if kind := _TABLE["part_types"].get(str(of.part_type or "function")):
            yield _Part(kind, str(of.part_id), _name(of.part_name), getattr(of, f"part_{kind}"))


def _joined(parts: Iterable[_Part]) -> str:
    return "\n\n".join(text for part in parts if part.type == "text" and (text := _text(part.value)))


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _object(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _decoded(value: Any) -> Any:
    """Return the value of JSON text; anything else as it is."""
    if not isinstance(value, str) or not value.startswith(("{", "[", '"')):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return value


def _unwrapped(value: Any) -> Any:
    """Return what a tool returned, without the objects in which a framework wraps it."""
    value = _decoded(value)
    if isinstance(value, list):
        return _joined(_parts(_Fields({"parts": value}))) or cast(Any, value)
    wrapper = _Fields(_object(value))
    inner = wrapper.wrapped
    return _object(inner).get("content", inner) if wrapper.part_type in _TABLE["wrappers"] else value
