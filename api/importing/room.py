"""Imports from other memory systems: sources of rows, what a row becomes, and the run that sends it.

Hands out what `mnemolog import` needs. The importers of systems whose API mnemolog serves come with the dialects and
are handed in (`api.dialects.registry.IMPORTERS`). Without it, nothing can be imported from other systems.
"""

from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name

from api.importing.run import (
    BATCH,
    MAX_BATCH,
    ImportReport,
    ImportState,
    Run,
    StateFile,
    document,
    nowhere,
    server,
    state_folder,
)
from api.importing.source import ImportRequest, Opener, Readable, Source, Unusable, utf8
from api.importing.transcripts import SYSTEM, USUAL, Format, LinesSource
from ingest.errors import CommandRejected

__all__ = [
    "BATCH", "MAX_BATCH", "Format", "ImportReport", "ImportRequest", "ImportState", "Readable", "Run", "Source",
    "StateFile", "Unusable", "document", "nowhere", "open_source", "server", "state_folder", "systems",
    "utf8", "without_password",
]  # fmt: skip


_OWN = {
    "mem0": "api.importing.mem0:open_source",
    "server-memory": "api.importing.server_memory:open_source",
    "claude": "api.importing.chats:open_claude",
    "chatgpt": "api.importing.chats:open_chatgpt",
    "markdown": "api.importing.markdown:open_source",
}
"""Importers of systems that no dialect serves."""


def systems(importers: Mapping[str, str]) -> tuple[str, ...]:
    """The systems with an importer, and JSON Lines files."""
    return (*importers, *_OWN, SYSTEM)


def open_source(system: str, request: ImportRequest, importers: Mapping[str, str]) -> Source:
    """The source of a system; `importers` name a function by system. Raises Unusable."""
    try:
        if system == SYSTEM:
            form = Format(request.form)
            if not request.location and form not in USUAL:
                raise Unusable("jsonl needs a location: a file, or a folder with .jsonl files")
            return LinesSource(Path(request.location).expanduser() if request.location else USUAL[form](), form)
        opener: Opener = resolve_name({**_OWN, **importers}[system])
        return opener(request)
    except CommandRejected as error:
        raise Unusable(str(error)) from None


def without_password(location: str) -> str:
    """A location without its password."""
    scheme, mark, rest_of_it = location.partition("://")
    return f"{scheme}{mark}{rest_of_it.rpartition('@')[2]}" if mark else location
