"""Memories and lessons as Markdown files: what a file says, its name, and what a mirror of a project does with it.

Nothing here reads or writes a file or connects to a server; `mirror.py` does.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Literal
from unicodedata import normalize

from msgspec import Struct

from mnemolog_client.answers import Accepted, Lesson, Memory
from mnemolog_client.front_matter import front_lines, front_matter, with_front_matter

SUFFIX = ".md"
BESIDE = ".server.md"
"""How the name of a file ends that has the server's text of another file, which was changed, too."""
KINDS: Mapping[str, Literal["memory", "lesson"]] = {"mem": "memory", "lsn": "lesson"}
"""The kind of a document by the prefix of its id."""
OURS = ("id", "version", "kind", "title", "tags", "created")
SHORT_ID = 6
SLUG_CHARS = 50
_ID = re.compile(r"(mem|lsn)_\w+")


class UnreadableNote(Exception):
    """A file is not a note; the message says why."""


class Note(Struct, frozen=True, kw_only=True):
    """A memory or a lesson as a file: the fields of its front matter and its text.

    `id` is empty in a new file. A lesson has no `version`. `others` are the lines of the front matter that the server
    does not know.
    """

    id: str = ""
    kind: Literal["memory", "lesson"] = "memory"
    version: int = 0
    title: str = ""
    tags: list[str] = []
    created: str = ""
    content: str
    others: Sequence[str] = ()

    @property
    def digest(self) -> str:
        """A hash of what a person may edit: the title, the tags and the text."""
        return blake2b(json.dumps([self.title, self.tags, self.content]).encode(), digest_size=16).hexdigest()


def note_of(document: Memory | Lesson, visible: Callable[[str], str] = str) -> Note:
    """The note of a memory or a lesson, with its texts as `visible` returns them."""
    return Note(
        id=document.id,
        kind=KINDS[document.id.partition("_")[0]],
        version=document.version if isinstance(document, Memory) else 0,
        title=_title(visible(document.title)),
        tags=[normalize("NFC", visible(tag)) for tag in document.tags],
        created=f"{document.occurred_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        content=_content(visible(document.content)),
    )


def read_note(text: str, stem: str) -> Note:
    """The note in a file whose name without its suffix is `stem`; raises UnreadableNote."""
    text = text.replace("\r\n", "\n")
    fields, body = front_matter(text)
    if not fields and re.match(r"---[ \t]*\n", text):
        raise UnreadableNote("its front matter has no end, or no fields")
    name, kind, title = (fields.get(field, "") for field in ("id", "kind", "title"))
    if not isinstance(title, str):
        raise UnreadableNote("`title` must be a text")
    if name and not (isinstance(name, str) and _ID.fullmatch(name)):
        raise UnreadableNote(f"{name!r} is not the id of a memory or a lesson")
    kind = KINDS[name.partition("_")[0]] if name else kind or "memory"
    if kind not in KINDS.values():
        raise UnreadableNote(f"`kind` must be {' or '.join(KINDS.values())}, not {kind!r}")
    if not body.strip():
        raise UnreadableNote("it has no text")
    tags = fields.get("tags", [])
    tags = [tag.strip() for tag in tags.split(",")] if isinstance(tags, str) else tags
    return Note(
        id=name,
        kind=kind,
        title=_title(title if name or title else stem),
        tags=[normalize("NFC", tag) for tag in tags if tag],
        content=_content(body),
        others=front_lines(text, OURS)[0],
    )


def write_note(note: Note, others: Sequence[str] = ()) -> str:
    """The file of a note, with these other lines of front matter."""
    fields = {name: getattr(note, name) for name in OURS}
    return with_front_matter(fields, others, f"{note.content}\n")


def file_names(note: Note) -> tuple[str, str]:
    """A short name for the file of a note, of its title and its id; and another one, if the first is taken."""
    words = note.title or note.content[: 2 * SLUG_CHARS]
    slug = re.sub(r"[\W_]+", "-", normalize("NFC", words).lower()).strip("-")[:SLUG_CHARS].strip("-") or note.kind
    short = re.sub(r"\W", "", note.id.partition("_")[2])
    return f"{slug}-{short[:SHORT_ID]}{SUFFIX}", f"{slug}-{short}{SUFFIX}"


def changes_of(note: Note, current: Note) -> dict[str, Any]:
    """The fields to revise so that a document, now `current`, says what the note says."""
    names = [name for name in ("content", "title", "tags") if getattr(note, name) != getattr(current, name)]
    is_stated = not " ".join(current.content.split()).startswith(current.title)
    if note.kind == "memory" and names[:1] == ["content"] and is_stated:
        names.append("title")  # without it, a new text gets its own first words as its title
    return {name: getattr(note, name) for name in names}


class Step(StrEnum):
    """What a mirror does about one document or file."""

    SAME = "same"
    WRITE = "write"
    """Write the server's text to the file."""
    SEND = "send"
    """Revise the document to what the file says."""
    CREATE = "create"
    """Make a document of a file without an id."""
    REMOVE = "remove"
    """Remove the file: its document was deleted on the server."""
    FORGET = "forget"
    """Delete the document: its file was removed."""
    MISSING = "missing"
    """The file was removed, and the document stays."""
    CONFLICT = "conflict"
    """Both were changed: write the server's text beside the file."""
    UNKNOWN = "unknown"
    """The server has no document of the file's id, and never had in this mirror."""
    DROP = "drop"
    """Neither is there any more."""


REASONS: Mapping[Step | None, str] = {
    Step.MISSING: "the file was removed; --delete also deletes the document",
    Step.CONFLICT: f"changed here and on the server: edit it, then delete the file {BESIDE} beside it",
    Step.UNKNOWN: "the project has no document with its id: remove the id to create one",
    None: "changed here, deleted on the server: delete the file, or remove its id to create another document",
}


class Base(Struct, forbid_unknown_fields=True):
    """A file as the last run left it: the digest of its note and of the document.

    `has_beside`: the mirror wrote the server's text beside it.
    """

    file: str
    digest: str
    has_beside: bool = False


class State(Struct, forbid_unknown_fields=True):
    """What a folder mirrors, and its files by the ids of their documents.

    `run` is part of the event ids of what is created: repeating a run that was killed creates nothing twice.
    """

    project: str
    agent: str
    run: str
    files: dict[str, Base] = {}


class Done(Struct, frozen=True, omit_defaults=True):
    """A step for a file. `step` is a `Step`, or `error`; `receipts` acknowledge deletions."""

    step: str
    file: str
    id: str = ""
    reason: str = ""
    receipts: list[Accepted] = []


def next_step(base: str | None, file: str | None, server: str | None, *, in_conflict: bool, delete: bool) -> Step:
    """What to do about a document, by the digests of the last run, its file and the server, each None if missing.

    `in_conflict`: the server's text is still beside the file. `delete`: delete documents whose files were removed.
    """
    match base, file, server:
        case _, None, None:
            return Step.DROP
        case None, _, None:
            return Step.UNKNOWN
        case _, _, None:
            return Step.REMOVE if file == base and not in_conflict else Step.CONFLICT
        case _, None, _:
            removed = Step.FORGET if delete else Step.MISSING
            return removed if server == base else Step.WRITE
        case _ if file == server:
            return Step.SAME
        case _ if in_conflict or base not in (file, server):
            return Step.CONFLICT
        case _:
            return Step.SEND if server == base else Step.WRITE


def _title(title: str) -> str:
    return " ".join(title.split())


def _content(content: str) -> str:
    """The text without what a file cannot tell: how lines end, and empty lines around it."""
    return content.replace("\r\n", "\n").strip("\n")
