"""The files that a text or a tool's input names. Pure.

A file is never an address, a host, a pattern, a flag, the name of a tool, or embedded data.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, cast

from projections.compression.payloads import Reading, is_base64, named
from projections.compression.words import TOOLS, TRIM, is_pattern, tokens, words

MAX_FILES = 20
_FILE_FIELDS = (
    "file_path", "filepath", "path", "filePath", "file", "notebook_path", "target_file", "absolute_path",
)  # fmt: skip
_PATH_CHARS = range(1, 512)
_EXTENSIONS = words(
    "py pyi js mjs cjs jsx ts tsx go rs java kt c h cc cpp hpp cs rb php swift scala sh sql html css scss"
    " vue md rst txt json jsonl yaml yml toml ini cfg conf env lock xml csv log lua ipynb proto tf png jpg"
    " svg pdf"
)
_DOT_FILES = (".env", ".conf", ".lock")
_BARE_PATH = re.compile(r"[A-Za-z0-9_/.-]*[A-Za-z0-9_/]")
"""A word that is its only part, with nothing to be cut off."""
_LINE_NUMBER = re.compile(r"(?::\d+){1,2}\Z")
_UNNAMED = re.compile(r"[\"\n\r\0]")
"""What is in no file's name."""
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}:/{1,3}\S*|\bmailto:\S*|(?<![\w.@/-])//[\w.-]+\.\w+/\S*", re.IGNORECASE)
_CLOSING_TAG = re.compile(r"</[\w:.-]{1,100}\s*>")
_HOST = re.compile(
    r"(?:www\.[\w-]|(?:[\w-]+\.)+(?:com|org|net|io|dev|ai|app|co|gov|edu|info|cloud)(?::\d+)?/|localhost(?::\d+)?/"
    r"|\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?/|[\w.+-]+@[\w.-]+)",
    re.IGNORECASE,
)


def input_files(tool_input: Any, unsaid: Collection[str], scan_chars: int) -> tuple[str, ...]:
    """Returns the files a tool was pointed at; none when its input is no object, nor the JSON text of one."""
    if isinstance(tool_input, str):
        reading = Reading()
        reading.text(tool_input[:scan_chars])
        values: list[Any] = [value for field, value in reading.fields if field in _FILE_FIELDS]
    elif isinstance(tool_input, dict):
        fields = cast(dict[str, Any], tool_input)
        values = [fields.get(field) for field in _FILE_FIELDS]
    else:
        return ()
    return tuple(
        dict.fromkeys(
            value
            for value in values
            if isinstance(value, str) and _is_file_name(value) and value.strip().lower() not in unsaid
        )
    )[:MAX_FILES]


def _is_file_name(text: str) -> bool:
    """Whether what a tool was pointed at is a file or folder: no URL, no flag, no pattern, no embedded data."""
    if len(text) not in _PATH_CHARS or text.startswith("-") or _UNNAMED.search(text) or not any(map(str.isalnum, text)):
        return False
    if _URL.match(text) or _HOST.match(text) or is_pattern(text):
        return False
    return named(text) == text


def files_in(texts: Iterable[str], unsaid: Collection[str]) -> tuple[str, ...]:
    """The files that texts name, in order of appearance."""
    paths = dict.fromkeys(chain.from_iterable(_paths(text) for text in texts if text))
    return tuple(islice((path for path in paths if path.lower() not in unsaid), MAX_FILES)) if paths else ()


def _paths(text: str) -> Iterator[str]:
    if ":/" in text or "//" in text or "mailto:" in text:
        text = _URL.sub(" ", text)
    if "</" in text:
        text = _CLOSING_TAG.sub(" ", text)
    for word in dict.fromkeys([word for word in text.split() if "/" in word or "." in word]):
        if "/" in word or "." in word[:-1]:
            yield from _paths_in(word)


def _paths_in(word: str) -> Sequence[str]:
    """The paths in a word with what is around it."""
    if word[0] == word[-1] == "*" and not word.strip("*").startswith("/"):  # bold
        word = word.strip("*")
    if word.isascii() and _BARE_PATH.fullmatch(word):
        parts = [word]
    else:
        parts = [part.rpartition("=")[2].rstrip(TRIM) for part in tokens(word)]
    paths = [path for part in parts if _is_path(path := _LINE_NUMBER.sub("", part) if ":" in part else part)]
    return paths if paths and not is_pattern(word.rstrip(".,:;!?")) else ()


def _is_path(word: str) -> bool:
    """A known file ending, or a folder written so that it cannot be "and/or"."""
    if len(word) not in _PATH_CHARS or word[0] == "-" or not _looks_like_path(word) or is_base64(word):
        return False
    host = word.partition("/")[0]
    return not (("." in host or "@" in word or host[:1] in "lL") and _HOST.match(word))


def _looks_like_path(word: str) -> bool:
    name = word.rpartition("/")[2]
    stem, dot, extension = name.rpartition(".")
    if dot and extension.lower() in _EXTENSIONS and (stem or name in _DOT_FILES):
        return True
    if "//" in word:
        return False
    rooted = word.startswith(("/", "./", "../", "~/"))
    if not (rooted and len(word.strip("./~")) > 1) and not (word.count("/") > 1 and word[0].isalpha()):
        return False
    return not TOOLS.issuperset(word.lower().split("/"))


def same_file(stored: str, wanted: str) -> bool:
    """Whether two paths may name one file: equal, or one ends in the other at a slash; a leading `./` is ignored."""
    one, other = _relative(stored), _relative(wanted)
    if not one or not other:
        return False
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def _relative(path: str) -> str:
    return path.strip().replace("\\", "/").removeprefix("./")
