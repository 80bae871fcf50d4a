"""Glob patterns of files, and the files that a tool call of a coding agent edits. Pure."""

import re
from fnmatch import fnmatchcase

EDITORS = frozenset(("Edit", "MultiEdit", "NotebookEdit", "Write", "replace", "write_file"))
"""Tools whose input begins with the path of a file."""
MOST_FILES = 10
"""Of one patch."""
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE)


def edited_files(tool_name: str, preview: str) -> list[str]:
    """The files that a tool edits, by the beginning of its input; at most MOST_FILES, and none for other tools."""
    if tool_name == "apply_patch":
        return _PATCHED.findall(preview)[:MOST_FILES]
    return preview.split(maxsplit=1)[:1] if tool_name in EDITORS else []


def names_file(pattern: str, path: str) -> bool:
    """Whether a glob pattern matches a file, or a folder that the file is in, by the end of its path.

    `*` stays within a name, `**` is any number of folders.
    """
    names, parts = (
        [name for name in text.replace("\\", "/").split("/") if name not in ("", ".")] for text in (path, pattern)
    )
    reached = {*range(len(names))}  # how many names of the path the pattern covers so far, in any way
    for part in parts:
        if part == "**":
            reached = {*range(min(reached, default=len(names)), len(names))}
        else:
            reached = {at + 1 for at in reached if at < len(names) and fnmatchcase(names[at], part)}
    return bool(parts and reached)
