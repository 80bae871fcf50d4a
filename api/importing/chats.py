"""The data exports of ChatGPT and Claude: conversations become sessions, and Claude's other data becomes memories.

Only the shown branch of a conversation is imported. Files are named in the text, not imported.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from api.hook_observations import hook_observation
from api.importing import sessions
from api.importing.claude_code import ANSWER, cut, plain
from api.importing.mapping import (
    NAME_CHARS,
    ImportRow,
    Mapped,
    Record,
    Step,
    as_object,
    few,
    needed,
    objects,
    text,
    when,
)
from api.importing.markdown import parts
from api.importing.source import ImportRequest, Source, Unusable, exported, listed, modified, of_rows
from ingest.commands.decide import Remember
from ingest.errors import CommandRejected

CONVERSATION, MESSAGE, END, MEMORY = "conversation", "message", "conversation end", "memory"
_READ = re.compile(r"(.*/)?((conversations[^/]*|memories|projects)\.json|(memories|projects)/[^/]*\.json)")
"""The files of an export that are read."""
FILES = "images and other files: only their names are imported"
BRANCH, THOUGHTS = "on another branch: edited or regenerated", "the model's reasoning"
INSTRUCTIONS = "custom instructions"


def mapped(row: ImportRow, project: str) -> Mapped:
    """The commands for a row; raises CommandRejected for a message that is hidden or empty."""
    record, lost = row.value, list[str](row.value.get("lost", ()))
    if reason := text(record, "skipped"):
        raise CommandRejected(reason)
    at = when(record, "at")
    if row.kind == CONVERSATION:
        return Mapped([sessions.started(project, row.name, at, title=text(record, "title"))], lost)
    if row.kind == END:
        end = sessions.ended(project, row.name, at)
        return Mapped([end._replace(key=f"{end.key}\0{at.isoformat()}")])  # it can continue, and end again
    if row.kind == MEMORY:
        content, title = needed(record, "text"), text(record, "title")[:NAME_CHARS]
        command = Remember(project=project, content=content, title=title, tags=record["tags"], keep_duplicates=True)
        return Mapped([Step(command, f"{MEMORY}\0{project}\0{title}\0{content}", at)])
    session_id, content_text = needed(record, "session"), text(record, "text").strip()
    key, steps = f"{MESSAGE}\0{session_id}\0{row.name}", list[Step]()
    for number, (tool, tool_input, tool_output) in enumerate(record["tools"]):
        values = cut(tool_input, lost), cut(tool_output, lost)
        call = sessions.acted(project, session_id, tool[:NAME_CHARS], *values, failed=False)
        steps.append(Step(call, f"{key}\0{number}", at))
    if content_text and record["role"] == INSTRUCTIONS:  # the same in each conversation
        command = Remember(project=project, content=content_text, title=INSTRUCTIONS, tags=["instructions"])
        steps.append(Step(command, f"{INSTRUCTIONS}\0{project}\0{content_text}", at))
    elif content_text and record["role"] == "user":
        steps.append(sessions.prompted(project, session_id, content_text, key, at))
    elif content_text:
        answer = hook_observation(session_id, project, ANSWER, {}, content=content_text)
        steps.append(Step(answer, key, at))
    if not steps:
        raise CommandRejected("the message has no text")
    return Mapped(steps, list(dict.fromkeys(lost)))


def open_chatgpt(request: ImportRequest) -> Source:
    """The source of ChatGPT's data export: the zip, its folder, or a conversations.json. Raises Unusable."""
    return _source("chatgpt", "mapping", request)


def open_claude(request: ImportRequest) -> Source:
    """The source of Claude's data export: the zip, its folder, or a conversations.json. Raises Unusable."""
    return _source("claude", "chat_messages", request)


def _source(system: str, field: str, request: ImportRequest) -> Source:
    path = Path(request.required_location("the zip of the data export, or its folder"))
    documents, others = exported(path, _READ.fullmatch)
    named = [(name, as_object(each)) for name, value in sorted(documents.items()) for each in listed(value) or [value]]
    entries = [each for _, each in named]
    if not any(field in each for each in entries):
        raise Unusable(f"{path} is not a data export of {system}: no conversation has the field `{field}`")
    project = request.project_or(system)
    messages_of = chatgpt_messages if system == "chatgpt" else claude_messages
    conversations = [each for name, each in named if field in each or "conversations" in name]
    rows = list(_rows(conversations, memories_of(entries, modified(path)), messages_of))
    source = of_rows(system, rows, lambda row: mapped(row, project), project)
    if others:
        source.notes.append(f"left out, {len(others):,} of the files in the export: {few(others)}")
    return source


def _rows(
    conversations: list[Record], memories: Iterator[ImportRow], messages_of: Callable[[Record], Iterator[ImportRow]]
) -> Iterator[ImportRow]:
    """Conversations, their messages, memories, and that the conversations are over."""
    messages, ends = list[ImportRow](), list[ImportRow]()
    for number, each in enumerate(conversations):
        name = text(each, "conversation_id", "id", "uuid") or f"number {number}"
        at = each.get("create_time") or each.get("created_at")
        yield ImportRow(CONVERSATION, name, {"at": at, "title": text(each, "title", "name")})
        ends.append(ImportRow(END, name, {"at": each.get("update_time") or each.get("updated_at") or at}))
        for message in messages_of(each):
            at = message.value["at"] = message.value.get("at") or at
            message.value["session"] = name
            messages.append(message)
    yield from (*messages, *memories, *ends)


def _branch(nodes: Mapping[str, Record], leaf: str, parent: str) -> dict[str, None]:
    """The nodes from the first one to a leaf, as keys: each message looks itself up among them."""
    path = dict[str, None]()
    while leaf in nodes and leaf not in path:
        path[leaf] = None
        leaf = text(nodes[leaf], parent)
    return dict.fromkeys(reversed(path))


def _message(name: str, record: Record, in_path: bool) -> ImportRow:
    return ImportRow(MESSAGE, name, {"tools": (), **record, **({} if in_path else {"skipped": BRANCH})})


def chatgpt_messages(conversation: Record) -> Iterator[ImportRow]:
    """The messages from the root to `current_node`, then those of other branches."""
    nodes = {name: as_object(node) for name, node in as_object(conversation.get("mapping")).items()}
    leaves = (name for name in reversed(nodes) if not nodes[name].get("children"))
    leaf = text(conversation, "current_node")
    path = _branch(nodes, leaf if leaf in nodes else next(leaves, ""), "parent")
    for name in dict.fromkeys([*path, *nodes]):
        if message := as_object(nodes[name].get("message")):
            yield _message(name, chatgpt_message(message), name in path)


def chatgpt_message(message: Record) -> Record:
    """The content of a ChatGPT message, or why it is skipped."""
    content, metadata, author = (as_object(message.get(field)) for field in ("content", "metadata", "author"))
    role, kind, lost = text(author, "role"), text(content, "content_type"), list[str]()
    record: Record = {"at": message.get("create_time"), "role": role, "lost": lost}
    if kind == "user_editable_context":
        stated = [text(content, field) for field in ("user_profile", "user_instructions")]
        return {**record, "role": INSTRUCTIONS, "text": "\n\n".join(filter(None, stated))}
    if kind in ("thoughts", "reasoning_recap"):
        return {**record, "skipped": THOUGHTS}
    if role == "system" or metadata.get("is_visually_hidden_from_conversation"):
        return {**record, "skipped": "hidden in the conversation"}
    lines = list[str]()
    for part in listed(content, "parts") or [text(content, "text", "result")]:
        block = as_object(part)
        spoken = part if isinstance(part, str) else text(block, "text")
        if not spoken and isinstance(part, dict):
            named = text(block, "asset_pointer", "content_type")
            spoken = f"[{text(block, 'content_type').partition('_')[0]}: {named.rpartition('://')[2]}]"
            lost.append(FILES)
        lines.append(spoken)
    lines += _named(objects(metadata.get("attachments")), "name", lost)
    content_text, recipient = "\n".join(filter(None, lines)), text(message, "recipient")
    if role == "tool":
        return {**record, "tools": [(text(author, "name") or role, None, content_text)]}
    if role == "assistant" and recipient not in ("", "all"):
        return {**record, "tools": [(recipient, content_text, None)]}
    return {**record, "text": content_text}


def claude_messages(conversation: Record) -> Iterator[ImportRow]:
    """The messages in order; if the export marks the shown branch, those of other branches come last."""
    messages = enumerate(objects(conversation.get("chat_messages")))
    nodes = {text(each, "uuid") or f"number {number}": each for number, each in messages}
    path = _branch(nodes, text(conversation, "current_leaf_message_uuid"), "parent_message_uuid") or nodes
    for name in dict.fromkeys([*path, *nodes]):
        yield _message(name, claude_message(nodes[name]), name in path)


def claude_message(message: Record) -> Record:
    """The content of a Claude message."""
    lines, tools, lost = list[str](), list[list[Any]](), list[str]()
    for block in objects(message.get("content")):
        match text(block, "type"):
            case "text":
                lines.append(text(block, "text"))
            case "thinking" | "redacted_thinking":
                lost.append(THOUGHTS)
            case "tool_use":
                tools.append([text(block, "name") or "unknown", block.get("input"), None])
            case "tool_result":
                if not tools or tools[-1][2] is not None:
                    tools.append([text(block, "name") or "unknown", None, None])
                tools[-1][2] = plain(block.get("content"))
            case kind:
                lost.append(f"parts of another type: {kind[:40]}")
    lines = list(filter(None, lines)) or [text(message, "text")]
    for file in objects(message.get("attachments")):
        content = text(file, "extracted_content")
        lines += _named([file], "file_name", [] if content else lost) + [content] * bool(content)
    lines += _named(objects(message.get("files")), "file_name", lost)
    role = "user" if text(message, "sender") == "human" else "assistant"
    content_text = "\n".join(filter(None, lines))
    return {"at": message.get("created_at"), "role": role, "text": content_text, "tools": tools, "lost": lost}


def _named(files: list[Record], field: str, lost: list[str]) -> list[str]:
    """A line for each file that is not imported."""
    lost += [FILES] * bool(files)
    return [f"[file: {text(file, field) or 'without a name'}]" for file in files]


def memories_of(entries: list[Record], changed: datetime) -> Iterator[ImportRow]:
    """Claude's memories about its user and projects, and the instructions and documents of projects."""
    projects = {text(each, "uuid"): each for each in entries if "prompt_template" in each or "docs" in each}
    for each in entries:
        for name, content in {"": each.get("conversations_memory"), **as_object(each.get("project_memories"))}.items():
            title = "What Claude remembers" + (f" of {text(projects.get(name, {}), 'name') or name}" if name else "")
            yield from _memory(title, content, ["claude-memory"], changed)
    for each in projects.values():
        at = each.get("updated_at") or each.get("created_at") or changed
        texts = [("description", each.get("description"), at), ("instructions", each.get("prompt_template"), at)]
        for file in objects(each.get("docs")):
            texts.append((text(file, "filename"), file.get("content"), file.get("created_at") or at))
        for label, content, made in texts:
            yield from _memory(f"{text(each, 'name')}: {label}", content, ["project"], made)


def _memory(title: str, content: Any, tags: list[str], at: Any) -> Iterator[ImportRow]:
    for part in parts(content) if isinstance(content, str) else ():
        yield ImportRow(MEMORY, title, {"title": title, "text": part, "tags": tags, "at": at})
