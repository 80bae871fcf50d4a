"""A project's memories and lessons as Markdown files in a folder: edit them, and send back what changed.

Each document has a file. A run compares it with the document and with what both were after the last run, which is in
the file `.mnemolog-mirror.json` of the folder. A file without an id becomes a document.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from errno import EEXIST
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import msgspec
from msgspec.structs import replace

from mnemolog_client.answers import Accepted
from mnemolog_client.calls import new_event_id
from mnemolog_client.client import Mnemolog
from mnemolog_client.errors import Conflict, Forbidden, InvalidRequest, MnemologError, NotFound, Unavailable
from mnemolog_client.notes import (
    BESIDE,
    REASONS,
    SUFFIX,
    Base,
    Done,
    Note,
    State,
    Step,
    UnreadableNote,
    changes_of,
    file_names,
    next_step,
    note_of,
    read_note,
    write_note,
)

STATE = ".mnemolog-mirror.json"
MAX_FILE_BYTES = 8 << 20
PAGE = 1_000
CAREFUL = frozenset((Step.REMOVE, Step.CONFLICT, Step.SEND, Step.FORGET))
"""Steps that lose or replace something, which are decided by the document as it is now."""
Write = Callable[[Path, bytes, int], None]
"""Writes a file, whole or not at all, with these permissions."""


def refuse_incomplete(request: str, left_out: str) -> NoReturn:
    """For `on_degraded` of the client: what an incomplete answer lacks was not deleted. Raises Unavailable."""
    raise Unavailable("incomplete", f"the answer to {request} is incomplete ({left_out}): try again later")


class WrongFolder(Exception):
    """The folder is not a mirror of this project on this server; the message says why."""


class File(NamedTuple):
    """A file with a note."""

    path: Path
    content: bytes
    note: Note


class Mirror:
    """A folder as a mirror of a project. Without a `project`, it is the folder's, or the project without a name.

    `visible` returns a text of the server as a file is to have it. The client's `on_degraded` should be
    `refuse_incomplete`. Raises WrongFolder if the folder is a mirror of another project, or as another agent.
    """

    def __init__(
        self,
        client: Mnemolog,
        folder: Path,
        write: Write,
        project: str | None = None,
        visible: Callable[[str], str] = str,
    ) -> None:
        self._client, self._folder, self._write_whole = client, folder, write
        self._note_of = partial(note_of, visible=visible)
        self._newest: dict[str, str] = {}
        self._state = state = self._saved() or State(project or "", client.agent, new_event_id())
        if (state.project, state.agent) != (state.project if project is None else project, client.agent):
            raise WrongFolder(f"{folder} is a mirror of project {state.project!r}, read as agent {state.agent!r}")

    def run(self, *, delete: bool = False, dry_run: bool = False) -> Iterator[Done]:
        """Do what is to be done, and yield it. Raises WrongFolder, MnemologError and OSError.

        `delete`: delete documents whose files were removed. `dry_run`: only yield.
        """
        self._newest = {}
        memories = self._client.memories.list(self._state.project, latest=True, page_size=PAGE)
        lessons = self._client.lessons.list(self._state.project, page_size=PAGE)
        server = {document.id: self._note_of(document) for listing in (memories, lessons) for document in listing}
        base = {self._current(name, server): entry for name, entry in self._state.files.items()}
        if base and not base.keys() & server.keys():
            message = "is it the right server? If all were deleted, delete the files and"
            raise WrongFolder(f"the server has none of the documents in {self._folder}: {message} {STATE}")
        files, new, unreadable = dict[str, File](), list[File](), set[str]()
        beside = {_beside(self._folder / entry.file) for entry in base.values() if entry.has_beside}
        for path in _markdown_files(self._folder):
            if path in beside:
                continue
            try:
                file = _file(path)
                name = self._current(file.note.id, server)
                if name in files:
                    raise UnreadableNote(f"{self._name(files[name].path)} has the same id")
            except (UnreadableNote, OSError) as error:
                unreadable.add(self._name(path))
                yield self._error(path, error)
                continue
            if name:
                files[name] = file
            else:
                new.append(file)
        self._state.files = base
        if not dry_run:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._save()
        try:
            yield from self._steps(server, dict(base), files, new, unreadable, delete=delete, dry_run=dry_run)
        finally:
            if not dry_run:
                self._save()

    def _steps(
        self, server: dict[str, Note], base: dict[str, Base], files: dict[str, File], new: list[File],
        unreadable: set[str], *, delete: bool, dry_run: bool,
    ) -> Iterator[Done]:  # fmt: skip
        for file in new:  # first: a run that was killed may have created documents without a file
            yield self._done(Step.CREATE, "", file, None, dry_run=dry_run)
        created = self._state.files.keys() - base.keys()
        for name in dict.fromkeys([*files, *base, *server]):
            entry, file, note = base.get(name), files.get(name), server.get(name)
            if name in created or (entry and entry.file in unreadable):
                continue
            in_conflict = entry is not None and entry.has_beside and _beside(self._folder / entry.file).exists()
            decide = partial(
                next_step, entry and entry.digest, file and file.note.digest,
                in_conflict=in_conflict,
                delete=delete and not unreadable,  # an unreadable file may be the file that seems to be removed
            )  # fmt: skip
            step = decide(note and note.digest)
            if step in CAREFUL:
                # a version that was added while the listing was read is on none of its pages
                note = self._latest(name)
                step = decide(note and note.digest)
            if step == Step.SAME and file and note and file.note.id != note.id:
                step = Step.WRITE
            done = self._done(step, name, file, note, dry_run=dry_run)
            if step not in (Step.SAME, Step.DROP):
                yield done
        if created:
            self._state.run = new_event_id()

    def _done(self, step: Step, name: str, file: File | None, note: Note | None, *, dry_run: bool) -> Done:
        """Carry out a step unless this is a dry run; what the server refuses for one file is an error of this file."""
        entry, path = self._state.files.get(name), file.path if file else self._new_path(note)
        label = entry.file if entry and not file and step != Step.WRITE else self._name(path)
        reason = REASONS[None] if step == Step.CONFLICT and note is None else REASONS.get(step, "")
        try:
            receipts = [] if dry_run else self._carry_out(step, name, file, note, path)
        except (Conflict, Forbidden, InvalidRequest, NotFound, OSError) as error:
            return self._error(path, error)
        return Done(step, label, name or (receipts[0].id if receipts else ""), reason, receipts)

    def _carry_out(self, step: Step, name: str, file: File | None, note: Note | None, path: Path) -> list[Accepted]:
        """Carry out a step; returns the server's acknowledgements."""
        match step:
            case Step.SAME if file:
                if (entry := self._state.files.get(name)) and entry.has_beside:
                    _beside(path).unlink(missing_ok=True)
                self._remember(name, file.note, path)
            case Step.WRITE if note:
                if self._write(note, file, path):
                    self._state.files.pop(name, None)
                    self._remember(note.id, note, path)
            case Step.SEND if note and file:
                answer = self._noun(name).revise(name, **changes_of(file.note, note))
                self._state.files.pop(name)
                return [self._refresh(answer, file)]
            case Step.CREATE if file:
                return [self._create(file)]
            case Step.REMOVE if file:
                if path.read_bytes() == file.content:
                    path.unlink()
                    self._state.files.pop(name)
            case Step.FORGET:
                return list(self._forget(name))
            case Step.CONFLICT if note:
                entry = self._state.files.get(name)
                if os.path.lexists(_beside(path)) and not (entry and entry.has_beside):
                    raise FileExistsError(EEXIST, f"{_beside(path).name} is in the way of the server's text: rename it")
                self._write_whole(_beside(path), write_note(note).encode(), 0o600)
                self._remember(name, note, path, has_beside=True)
            case Step.DROP:
                self._state.files.pop(name, None)
            case _:
                pass
        return []

    def _create(self, file: File) -> Accepted:
        note, origin = file.note, f"{self._state.run}\0{self._name(file.path)}\0{file.note.digest}"
        answer: Accepted = self._noun("mem_" if note.kind == "memory" else "lsn_").create(
            note.content,
            **{"title": note.title, "tags": note.tags, "project": self._state.project},
            **({"keep_duplicates": True} if note.kind == "memory" else {}),
            event_id=f"mirror:{blake2b(origin.encode(), digest_size=16).hexdigest()}",
        )
        if entry := self._state.files.get(answer.id):
            raise OSError(EEXIST, f"{entry.file} has the same text")
        return self._refresh(answer, file)

    def _refresh(self, answer: Accepted, file: File) -> Accepted:
        """Write what the server stored to the file: with its id, and without secrets."""
        note = self._note_of(self._noun(answer.id).get(answer.id))
        if not self._write(note, file, file.path):  # it was edited during the run: only add the id
            edited = _file(file.path)
            self._write(replace(edited.note, id=note.id, version=note.version, created=note.created), edited, file.path)
        self._remember(note.id, note, file.path)
        return answer

    def _forget(self, name: str) -> Iterator[Accepted]:
        """Delete a document with its earlier versions, also those of other agents."""
        for version in [*reversed(self._versions(name))] or [name]:
            try:
                yield self._noun(name).delete(version, reason="its file was removed from a mirror")
            except NotFound:  # it went with a newer version
                pass
        self._state.files.pop(name)

    def _current(self, name: str, server: Mapping[str, Note]) -> str:
        """The id of the newest version of a memory that is listed; otherwise the id itself."""
        if name not in self._newest:
            versions = [name] if name in server else self._versions(name)
            self._newest[name] = next((version for version in reversed(versions) if version in server), name)
        return self._newest[name]

    def _versions(self, name: str) -> list[str]:
        try:
            return [version.id for version in self._client.memories.history(name)] if name[:4] == "mem_" else []
        except NotFound:
            return []

    def _latest(self, name: str) -> Note | None:
        """The document now, not as it was listed; none if it was deleted or retired."""
        try:
            document = self._noun(name).get((self._versions(name) or [name])[-1])
        except NotFound:
            return None
        return None if getattr(document, "retired_at", None) else self._note_of(document)

    def _noun(self, name: str) -> Any:
        return self._client.memories if name.startswith("mem_") else self._client.lessons

    def _write(self, note: Note, file: File | None, path: Path) -> bool:
        """Write a note, unless the file was edited since it was read."""
        if file is None and os.path.lexists(path):
            raise FileExistsError(EEXIST, "another file has this name")
        if file and path.read_bytes() != file.content:
            return False
        mode = stat.S_IMODE(path.stat().st_mode) if file else 0o600
        self._write_whole(path, write_note(note, file.note.others if file else ()).encode(), mode)
        return True

    def _new_path(self, note: Note | None) -> Path:
        names = [self._folder / name for name in file_names(note or Note(content=""))]
        return next((path for path in names if not os.path.lexists(path)), names[-1])

    def _remember(self, name: str, note: Note, path: Path, *, has_beside: bool = False) -> None:
        self._state.files[name] = Base(self._name(path), note.digest, has_beside)

    def _error(self, path: Path, error: Exception) -> Done:
        reason = error.message if isinstance(error, MnemologError) else getattr(error, "strerror", None)
        return Done("error", self._name(path), reason=reason or str(error))

    def _name(self, path: Path) -> str:
        return _text(path.relative_to(self._folder).as_posix())

    def _saved(self) -> State | None:
        """The state of the last run, if there was any; raises WrongFolder."""
        try:
            return msgspec.json.decode((self._folder / STATE).read_bytes(), type=State)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            advice = "restore it, or delete it; without it, every file that differs from the server is a conflict"
            raise WrongFolder(f"{self._folder / STATE} is damaged ({error}): {advice}") from None

    def _save(self) -> None:
        path = self._folder / STATE
        content = msgspec.json.format(msgspec.json.encode(self._state, order="sorted"), indent=1) + b"\n"
        if not path.exists() or path.read_bytes() != content:
            self._write_whole(path, content, 0o600)


def _text(name: str) -> str:
    return name.encode(errors="replace").decode()  # a file's name need not be UTF-8


def _beside(path: Path) -> Path:
    return path.with_name(path.stem + BESIDE)


def _markdown_files(folder: Path) -> Iterator[Path]:
    """The Markdown files below a folder, by path, without those in hidden folders. Raises OSError."""

    def fail(error: OSError) -> None:
        raise error  # files that cannot be listed were not removed

    for parent, folders, names in os.walk(folder, onerror=fail) if folder.exists() else ():
        folders[:] = sorted(name for name in folders if name != "node_modules" and not name.startswith("."))
        for name in sorted(names):
            if name.lower().endswith(SUFFIX) and not name.startswith("."):
                yield Path(parent, name)


def _file(path: Path) -> File:
    """A file with its note; raises UnreadableNote or OSError."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableNote("it is a link or no file")
    if status.st_size > MAX_FILE_BYTES:
        raise UnreadableNote(f"it has over {MAX_FILE_BYTES >> 20} MiB")
    content = path.read_bytes()
    try:
        return File(path, content, read_note(content.decode("utf-8-sig"), _text(path.stem)))
    except UnicodeDecodeError:
        raise UnreadableNote("it is not UTF-8") from None
