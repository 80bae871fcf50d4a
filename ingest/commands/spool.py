"""A folder where clients store commands that no server accepted: one file each, read oldest first.

A file stays until its commands are in the log. Each command has an event id (its own, or one derived from the file's
name and content), so that reading it again after a crash stores nothing twice. Unreadable and refused files move to
`rejected/`, next to the reason.
"""

import logging
import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from heapq import nsmallest
from pathlib import Path
from typing import NamedTuple

import msgspec

from ingest.commands.decide import WriteCommand
from ingest.errors import CommandRejected, MalformedRequest, RequestTooLarge

MAX_FILE_BYTES = 33 << 20
"""A hook accepts 32 MiB, and wraps them."""
BATCH_BYTES = 16 << 20
SETTLED_S = 5.0
"""A newer unreadable file may still be being written: not every client renames."""
MAX_REJECTED = 1_000
REJECTED = "rejected"

Parse = Callable[[bytes, str], Sequence[WriteCommand]]
"""Returns the commands of a file from its content and name. Raises MalformedRequest, CommandRejected or
RequestTooLarge."""

logger = logging.getLogger(__name__)


class Spooled(NamedTuple):
    """One file and its commands, each with an event id; there may be none."""

    name: str
    commands: list[WriteCommand]


class Spool:
    """One folder. Its methods block on files; nothing needs the folder to exist."""

    def __init__(self, folder: Path, parse: Parse) -> None:
        self.folder, self._parse = folder, parse
        self._warned = False

    def take(self, limit: int) -> list[Spooled]:
        """The oldest files by name, at most `limit` and some 16 MiB; they stay until `done` or `reject`. What cannot be
        read is rejected on the way, unless it is only seconds old."""
        taken: list[Spooled] = []
        size = 0
        for name in nsmallest(limit, self._names()):
            content = self._read(name)
            if content is None:
                continue
            if taken and size + len(content) > BATCH_BYTES:
                break
            size += len(content)
            try:
                commands = self._parse(content, name)
            except (MalformedRequest, CommandRejected, RequestTooLarge) as error:
                self._reject_settled(name, str(error))
                continue
            except Exception as error:  # a fault of ours in one file holds up no other
                logger.exception("%s cannot be read", self.folder / name)
                self._reject_settled(name, f"internal: {error!r}")
                continue
            taken.append(Spooled(name, _with_ids(commands, name, content)))
        return taken

    def done(self, name: str) -> None:
        """Delete a file whose commands are in the log; nothing happens when another process did."""
        (self.folder / name).unlink(missing_ok=True)

    def reject(self, name: str, reason: str) -> None:
        """Move a file to `rejected/`, beside `<name>.reason`. Where 1,000 are kept it is deleted, and logged."""
        folder = self.folder / REJECTED
        folder.mkdir(mode=0o700, exist_ok=True)
        if len(os.listdir(folder)) >= 2 * MAX_REJECTED:  # noqa: PTH208 - names are enough
            logger.error("%s is full; deleted %s, which was refused: %s", folder, name, reason)
            self.done(name)
            return
        logger.warning("%s was refused and moved to %s: %s", name, folder, reason)
        (folder / f"{name}.reason").write_text(f"{reason}\n", errors="replace")
        with suppress(FileNotFoundError):  # another process was first
            (self.folder / name).rename(folder / name)

    def _names(self) -> list[str]:
        try:
            folder = self.folder.stat()
            with os.scandir(self.folder) as entries:
                files = [entry for entry in entries if entry.name.endswith(".json") and entry.name[0] != "."]
                files = [entry for entry in files if entry.is_file(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        if os.name == "nt" or (os.getuid() in (0, folder.st_uid) and not folder.st_mode & stat.S_IWOTH):
            return [entry.name for entry in files]
        names = [entry.name for entry in files if _is_own(entry)]
        if len(names) < len(files) and not self._warned:
            self._warned = True
            logger.warning("%s: skipped %d files that belong to other users", self.folder, len(files) - len(names))
        return names

    def _read(self, name: str) -> bytes | None:
        path = self.folder / name
        try:
            size = path.stat().st_size
            if size > MAX_FILE_BYTES:
                self.reject(name, f"the file is {size:,} bytes; the limit is {MAX_FILE_BYTES:,}")
                return None
            return path.read_bytes()
        except FileNotFoundError:  # another process was first
            return None

    def _reject_settled(self, name: str, reason: str) -> None:
        try:
            age_s = time.time() - (self.folder / name).stat().st_mtime
        except FileNotFoundError:
            return
        if not 0 <= age_s < SETTLED_S:
            self.reject(name, reason)


def _is_own(entry: "os.DirEntry[str]") -> bool:
    """A file of this user: a spool below the temporary folder is open to all users."""
    try:
        return entry.stat(follow_symlinks=False).st_uid == os.getuid()
    except FileNotFoundError:
        return False


def _with_ids(commands: Sequence[WriteCommand], name: str, content: bytes) -> list[WriteCommand]:
    if all(command.event_id for command in commands):
        return list(commands)
    digest = blake2b(name.encode(errors="surrogateescape") + b"\0" + content, digest_size=16).hexdigest()
    return [
        command if command.event_id else msgspec.structs.replace(command, event_id=f"spool-{digest}-{number}")
        for number, command in enumerate(commands)
    ]
