"""Notes: small Markdown files by name, a project's second brain.

A note is kept as a slot of a project of its own, so it is scrubbed, backed up, replayed and forgotten like everything
else. Its label is made of its name, and its description is the name.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.endpoints import Arguments, door_of, success
from ingest.commands.requests import SetSlot
from ingest.errors import NotFound, Overloaded
from mcp_gateway.lenient import BadArgument
from projections.documents.slots import Slot
from projections.queries.views import view

PROJECT = "second-brain"
MAX_NOTES = 500
MAX_CHARS = 20_000
"""Of a note, as of any slot."""
_NAME = re.compile(r"[\w][\w .()-]{0,119}\.md")
_LABEL = "note_"


async def list_notes(request: Request, arguments: Arguments) -> Response:
    """The notes by name; with `file`, that one and its text."""
    name, door = arguments["file"], door_of(request)
    await door.caught_up()
    notes = _notes(await door.queries.browse.slots(door.reader(), PROJECT))
    if name is None:
        return success(files=[{key: value for key, value in one.items() if key != "content"} for one in notes])
    found = next((one for one in notes if one["file"] == _checked(name)), None)
    if found is None:
        raise NotFound(f"there is no file {name}")
    return success(**found)


async def write_note(request: Request, arguments: Arguments) -> Response:
    """Keep a note, in the place of one of that name."""
    door = door_of(request)
    name = _checked(arguments["file"])
    await door.caught_up()
    notes = _notes(await door.queries.browse.slots(door.reader(), PROJECT))
    if len(notes) >= MAX_NOTES and name not in (one["file"] for one in notes):
        raise Overloaded(f"there are {MAX_NOTES} files already", retry_after_s=3600)
    label = _LABEL + blake2b(name.encode(), digest_size=8).hexdigest()
    note = SetSlot(
        label=label, content=arguments["content"], project=PROJECT, size_limit=MAX_CHARS, description=name, pinned=False
    )
    caller = door.caller()
    accepted = await door.operations.slots.set(note, caller)
    door.wrote(caller.agent_id, accepted.position)
    return success(file=name)


def _notes(found: Sequence[Slot]) -> list[dict[str, Any]]:
    slots = [view(one) for one in found if one.project == PROJECT and one.label.startswith(_LABEL)]
    notes = [
        {
            "file": one["description"],
            "size": one["size"],
            "updatedAt": dialect.iso(one["updated_at"]),
            "content": one["content"],
        }
        for one in slots
    ]
    return sorted(notes, key=lambda one: one["file"])


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise BadArgument("file must be a name without a folder that ends in .md", "file")
    return name
