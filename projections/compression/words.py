"""Words of a text, and what is found in one word wherever it stands."""

import re
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
LONGEST_KEPT = 128
"""Longer words are data: keeping them would fill memory."""
MOST_KEPT = 65_536


class PerWord(dict[str, T], Generic[T]):
    """What a function finds in each word, kept: nearly all words of a text were in the ones before.

    It is looked up for every word of every text, so it is a plain dictionary, which is emptied when it is full.
    """

    def __init__(self, find: Callable[[str], T]) -> None:
        self._find = find

    def __missing__(self, word: str) -> T:
        found = self._find(word)
        if len(word) <= LONGEST_KEPT:
            if len(self) >= MOST_KEPT:
                self.clear()
            self[word] = found
        return found


def words(text: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(text.split())


_PUNCTUATION = bytes.maketrans(b"\"'`()[]{}<>,;|*", b" " * 15)
TRIM = ".:!?=&\\"
"""What is cut off the end of a token."""
_BEFORE_TOKEN = re.compile(r"[\s\"'`()\[\]{}<>,;|*]")
_BEHIND_TOKEN = re.compile(r"[.:!?=&\\]*+(?:[\s\"'`()\[\]{}<>,;|*]|\Z)")
TOOLS = words(
    "bash bashoutput killshell killbash read write edit multiedit notebookedit notebookread grep glob ls task agent"
    " webfetch websearch todowrite todoread exitplanmode enterplanmode askuserquestion slashcommand skill tasklist"
    " taskcreate taskupdate taskget taskoutput taskstop listmcpresourcestool readmcpresourcetool apply_patch"
    # Codex
    " exec_command write_stdin update_plan view_image local_shell web_search"
    # Cursor
    " read_file edit_file search_replace list_dir grep_search file_search codebase_search run_terminal_cmd delete_file"
    " todo_write read_lints"
    # Gemini CLI
    " write_file read_many_files list_directory search_file_content run_shell_command google_web_search web_fetch"
    " save_memory write_todos"
)
"""Tools of coding agents, lower-cased: their names say nothing of the work."""
_PATTERN = re.compile(
    r"[*^|]|\\[.*+?()\[\]{}^$|]|\\[wdsb][+*)]|\.[+]|\(\?|\?(?=[\w/.])|\{[^{}]{0,100},|\$\Z|\A[sy]/[^/]*/[^/]*/\w*\Z"
)
"""Signs of a glob, a regular expression or a substitution, which no file's name has."""
_PATTERN_SIGNS = re.compile(r"[*^|\\?{$+]")
"""What is in every glob and regular expression: looked for first, at a tenth of the price."""


def tokens(text: str) -> list[str]:
    """The words of a text, without punctuation around them."""
    # through bytes, whose table is applied in a fifth of the time; UTF-8 has these bytes in no other character
    encoded = text.encode("utf-8", "surrogatepass").translate(_PUNCTUATION)
    return encoded.decode("utf-8", "surrogatepass").split()


def says(lowered: str, word: str) -> bool:
    """Whether one of a lower-cased text's tokens is this word: a look at each token would cost more."""
    at = lowered.find(word)
    while at >= 0:
        if (at == 0 or _BEFORE_TOKEN.match(lowered, at - 1)) and _BEHIND_TOKEN.match(lowered, at + len(word)):
            return True
        at = lowered.find(word, at + 1)
    return False


def is_pattern(text: str) -> bool:
    """Whether a text is a glob, a regular expression or a substitution."""
    return (text[1:2] == "/" or _PATTERN_SIGNS.search(text) is not None) and _PATTERN.search(text) is not None
