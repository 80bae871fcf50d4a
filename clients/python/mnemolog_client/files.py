"""Files on memories: the commands of Anthropic's memory tool, for any client, without sending.

A file is a memory with its path as the title and, after `file:`, as a tag, that supersedes nothing. No other memory is
a file, whatever its tags are. A change is a new version of the memory, and deleting forgets it. A directory exists
while a file is in it. Answers and errors have the texts of Anthropic's documentation.

Each command is a generator: it yields calls of a client's `memories`, and is sent their answers. `run` and `run_async`
do so.
"""

import json
import re
from collections.abc import Callable, Generator, Sequence
from inspect import isawaitable
from operator import methodcaller
from typing import Any, Protocol, TypeVar
from unicodedata import normalize

from mnemolog_client.answers import Accepted, Memory
from mnemolog_client.client import Mnemolog
from mnemolog_client.fields import OfMemory

T = TypeVar("T")
Steps = Generator[Callable[[Any], Any], Any, T]
Files = dict[str, list[Memory]]
OnDeleted = Callable[[str, Accepted], None]

ROOT = "/memories"
MARK = "file:"
_BLANK_TEXT = r'(?m)^blank:("(?:[^\S\x00-\x1f]|\ufeff|\\[bfnrt]|\\u[0-3f][\da-f]{3})*")$'
"""The tag of a file without any text has its whitespace as JSON, because the server refuses blank content. Other tags
that begin so are ignored."""
LONGEST_PATH = 500
"""A tag has at most 512 characters."""
MOST_LINES = 999_999
AROUND = 2
"""Lines before and after a change that are shown with it."""
_TRAVERSAL = re.compile(r"(^|[/\\])\.\.?([/\\]|$)|%2e|%2f|%5c|\\|[\x00-\x1f]", re.IGNORECASE)


class HasMemories(Protocol):
    """An asyncio client, or anything else with its calls `list`, `create`, `revise` and `delete` on memories."""

    @property
    def memories(self) -> Any: ...


class FileError(Exception):
    """A command cannot be carried out; the text is the answer for the model."""


def run(client: Mnemolog, steps: Steps[T]) -> T:
    """The answer to a command; raises FileError or MnemologError."""
    answer: Any = None
    while True:
        try:
            call = steps.send(answer)
        except StopIteration as end:
            return end.value
        answer = call(client.memories)


async def run_async(client: HasMemories, steps: Steps[T]) -> T:
    """The same with an asyncio client."""
    answer: Any = None
    while True:
        try:
            call = steps.send(answer)
        except StopIteration as end:
            return end.value
        called = call(client.memories)
        answer = await called if isawaitable(called) else [memory async for memory in called]


class MemoryFiles:
    """The files of one project. Each command lists the project's memories, so give the files a project of their own."""

    def __init__(
        self,
        project: str = "memory-files",
        *,
        fields: OfMemory | None = None,
        on_deleted: OnDeleted | None = None,
    ) -> None:
        """`fields` are those of new files, such as `visibility`. `on_deleted` gets the path and the receipt of each
        deletion: the server's acknowledgement, with its event id and position."""
        self._project, self._fields, self._on_deleted = project, fields or {}, on_deleted

    def view(self, path: str, view_range: Sequence[int] | None = None) -> Steps[str]:
        """The lines of a file, or of a part of it; or the files of a directory, up to two levels deep."""
        at = _checked(path)
        files = yield from self._files()
        if at in files:
            return _lines_of(path, _text(files[at][0]), view_range)
        sizes = {name[len(at) :]: len(_text(copies[0]).encode()) for name, copies in files.items() if _is_in(name, at)}
        if not sizes and at != ROOT:
            raise FileError(f"The path {path} does not exist. Please provide a valid path.")
        return _tree_of(at, sizes)

    def create(self, path: str, file_text: str) -> Steps[str]:
        """Write a new file."""
        at = _checked(path)
        files = yield from self._files()
        _check_free(at, files, f"Error: File {path} already exists")
        fields = {**self._fields, "project": self._project, "keep_duplicates": True}
        yield methodcaller("create", **fields | _fields(at, file_text, self._fields.get("tags") or ()))
        return f"File created successfully at: {path}"

    def str_replace(self, path: str, old_str: str, new_str: str) -> Steps[str]:
        """Replace the only occurrence of a text in a file."""
        at = _checked(path)
        files = yield from self._files()
        if at not in files:
            raise FileError(f"Error: The path {path} does not exist. Please provide a valid path.")
        text = _text(files[at][0])
        starts = [match.start() for match in re.finditer(f"(?={re.escape(old_str)})", text)] if old_str else []
        if not starts:
            raise FileError(f"No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}.")
        if len(starts) > 1:
            lines = ", ".join(str(text.count("\n", 0, start) + 1) for start in starts)
            raise FileError(
                f"No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: {lines}. "
                "Please ensure it is unique"
            )
        changed = text[: starts[0]] + new_str + text[starts[0] + len(old_str) :]
        yield methodcaller("revise", files[at][0].id, **_fields(at, changed, files[at][0].tags))
        first = max(1, text.count("\n", 0, starts[0]) + 1 - AROUND)
        shown = changed.split("\n")[first - 1 : text.count("\n", 0, starts[0]) + 1 + AROUND]
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            + _numbered(shown, first)
        )

    def insert(self, path: str, insert_line: int, insert_text: str) -> Steps[str]:
        """Add lines after a line of a file; 0 is its beginning."""
        at = _checked(path)
        files = yield from self._files()
        if at not in files:
            raise FileError(f"Error: The path {path} does not exist")
        lines = _text(files[at][0]).removesuffix("\n").split("\n") if _text(files[at][0]) else []
        if not 0 <= insert_line <= len(lines):
            raise FileError(
                f"Error: Invalid `insert_line` parameter: {insert_line}. "
                f"It should be within the range of lines of the file: [0, {len(lines)}]"
            )
        lines.insert(insert_line, insert_text.rstrip("\n"))
        text = "\n".join(lines).removesuffix("\n") + "\n"
        yield methodcaller("revise", files[at][0].id, **_fields(at, text, files[at][0].tags))
        return f"The file {path} has been edited."

    def delete(self, path: str) -> Steps[str]:
        """Forget a file, or all files of a directory, with their earlier versions."""
        at = _checked(path)
        if at == ROOT:
            raise FileError("Error: Cannot delete the /memories directory itself")
        below = yield from self._below(at)
        if not below:
            raise FileError(f"Error: The path {path} does not exist")
        while below:  # deleting a version by one agent makes that of another current
            for name, memory in below:
                receipt = yield methodcaller(
                    "delete", memory.id, reason=f"the memory tool deleted {name}"[:LONGEST_PATH]
                )
                if self._on_deleted is not None:
                    self._on_deleted(name, receipt)
            below = yield from self._below(at)
        return f"Successfully deleted {path}"

    def rename(self, old_path: str, new_path: str) -> Steps[str]:
        """Give a file, or a directory with all its files, another path. Nothing is changed if a new path is refused."""
        old, new = _checked(old_path), _checked(new_path)
        if old == ROOT:
            raise FileError("Error: Cannot rename the /memories directory itself")
        files = yield from self._files()
        moved = [(name, memory) for name, copies in files.items() if _is_at(name, old) for memory in copies]
        if not moved:
            raise FileError(f"Error: The path {old_path} does not exist")
        _check_free(new, files, f"Error: The destination {new_path} already exists")
        if _is_in(new, old):
            raise FileError(f"Error: Cannot rename {old_path} to a path inside itself")
        paths = [_checked(new + name[len(old) :]) for name, _ in moved]
        for at, (_, memory) in reversed([*zip(paths, moved, strict=True)]):  # the newest of a path stays the newest
            yield methodcaller("revise", memory.id, **_fields(at, _text(memory), memory.tags))
        return f"Successfully renamed {old_path} to {new_path}"

    def _below(self, path: str) -> Steps[list[tuple[str, Memory]]]:
        """The file of a path, and those of a directory, with their paths."""
        files = yield from self._files()
        return [(name, memory) for name, copies in files.items() if _is_at(name, path) for memory in copies]

    def _files(self) -> Steps[Files]:
        """The files by path; of two that were created at the same moment, the newest is first."""
        memories: list[Memory] = yield methodcaller("list", self._project, latest=True, page_size=1_000)
        files: Files = {}
        for memory in memories:
            if memory.keep_duplicates and _is_in(memory.title, ROOT) and MARK + memory.title in memory.tags:
                files.setdefault(memory.title, []).append(memory)
        return files


def _checked(path: str) -> str:
    """The path without a slash at its end; raises FileError for one that is not below the root."""
    if path != ROOT and not path.startswith(ROOT + "/"):
        raise FileError(f"Error: Path must start with /memories, got: {path}")
    if _TRAVERSAL.search(path):
        raise FileError(f"Error: Path {path} would escape /memories directory")
    if len(path) > LONGEST_PATH:
        raise FileError(f"Error: A path has at most {LONGEST_PATH} characters")
    return re.sub("/+", "/", normalize("NFC", path)).rstrip("/")  # tags are stored in this form


def _check_free(path: str, files: Files, taken: str) -> None:
    """Raises FileError where the path is taken, or below a file."""
    if path == ROOT or any(_is_at(name, path) for name in files):
        raise FileError(taken)
    for name in files:
        if _is_in(path, name):
            raise FileError(f"Error: {name} is a file, not a directory")


def _is_in(path: str, directory: str) -> bool:
    return path.startswith(directory + "/")


def _is_at(path: str, place: str) -> bool:
    return path == place or _is_in(path, place)


def _fields(path: str, text: str, tags: Sequence[str]) -> dict[str, Any]:
    """What is stored of a file; `tags` are those that it has."""
    blank = [] if text.strip() else ["blank:" + json.dumps(text)]
    others = [tag for tag in tags if not tag.startswith((MARK, "blank:"))]
    return {"content": "(empty file)" if blank else text, "title": path, "tags": [MARK + path, *blank, *others]}


def _text(memory: Memory) -> str:
    blank = re.search(_BLANK_TEXT, "\n".join(memory.tags))
    return json.loads(blank[1]) if blank else memory.content


def _lines_of(path: str, text: str, view_range: Sequence[int] | None) -> str:
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        raise FileError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    first, last = view_range if view_range and len(view_range) == 2 else (1, -1)
    first = max(1, first)
    shown = lines[first - 1 : None if last == -1 else last]
    return f"Here's the content of {path} with line numbers:\n{_numbered(shown, first)}"


def _tree_of(directory: str, sizes: dict[str, int]) -> str:
    """Sizes and paths up to two levels deep; `sizes` are those of files, by the rest of their path."""
    listed = {"": sum(sizes.values())}
    for rest, size in sizes.items():
        parts = rest.split("/")[1:]
        if any(part.startswith(".") or part == "node_modules" for part in parts):
            continue
        for depth in range(1, min(len(parts), 2) + 1):
            name = "".join(f"/{part}" for part in parts[:depth]) + ("/" if depth < len(parts) else "")
            listed[name] = listed.get(name, 0) + size
    header = (
        f"Here're the files and directories up to 2 levels deep in {directory}, excluding hidden items and node_modules"
    )
    names = sorted(listed, key=lambda name: name.split("/"))
    return "\n".join([f"{header}:", *(f"{_size(listed[name])}\t{directory}{name}" for name in names)])


def _size(count: int) -> str:
    """As `du -h` writes it: 512B, 1.5K, 2M."""
    unit = 0
    size = float(count)
    while size >= 1024 and unit < 3:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f}".removesuffix(".0") + "BKMG"[unit]


def _numbered(lines: Sequence[str], first: int) -> str:
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, first))
