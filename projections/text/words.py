"""The words of a text, and the files, concepts and facts in it. Pure.

A file is never an address, a host, a pattern, a flag, the name of a tool, or embedded data.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Set
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar, cast

from projections.kernel.module import native
from projections.text.payloads import BEGINNINGS, Reading, is_base64, named

T = TypeVar("T")
LONGEST_KEPT = 128
"""Longer words are data: keeping them would fill memory."""
MOST_KEPT = 65_536
CODE_SPAN = re.compile(r"`[^`]*`|(?<!\w)'[\w.$-]+'(?!\w)")


class PerWord(dict[str, T], Generic[T]):
    """What a function finds in each word, kept: nearly all words of a text were in the ones before.

    It is looked up for every word of every text, so it is a plain dictionary, which is emptied when it is full.
    """

    def __init__(self, find: Callable[[str], T]) -> None:
        self._find = find

    def __missing__(self, word: str) -> T:
        value = self._find(word)
        if len(word) <= LONGEST_KEPT:
            if len(self) >= MOST_KEPT:
                self.clear()
            self[word] = value
        return value


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
    return _PATTERN.search(text) is not None


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


def input_files(tool_input: Any, unsaid: Set[str], scan_chars: int) -> tuple[str, ...]:
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
    names = [value for value in values if isinstance(value, str) and _is_file_name(value)]
    unsaid = unsaid | TOOLS
    return tuple(dict.fromkeys(name for name in names if name.strip().lower() not in unsaid))[:MAX_FILES]


def _is_file_name(text: str) -> bool:
    """Whether what a tool was pointed at is a file or folder: no URL, no flag, no pattern, no embedded data."""
    if len(text) not in _PATH_CHARS or text.startswith("-") or _UNNAMED.search(text) or not any(map(str.isalnum, text)):
        return False
    if _URL.match(text) or _HOST.match(text) or is_pattern(text):
        return False
    return named(text) == text


class Named(NamedTuple):
    """What a text names: its first files, concepts and facts, distinct, in order of appearance, and whether it decides,
    fixes or demands something."""

    files: tuple[str, ...]
    concepts: tuple[str, ...]
    facts: tuple[str, ...]
    is_weighty: bool


def names_in(text: str, unsaid: Set[str] = frozenset()) -> Named:
    """Return what a text names; files, concepts and facts without those that are unsaid, or the name of a tool.

    Concepts are backticked words, then names, then identifiers, hyphenated words and hashtags, lower-cased. Facts are
    short sentences that state something: a number, a `key: value` pair or a verb of `_STATES`; a command with its flags
    states nothing, nor does a line of a patch.
    """
    if not text:
        return Named((), (), (), False)
    compiled = compiled_names.read(text, unsaid, MAX_FILES, MAX_CONCEPTS, MAX_FACTS)
    files, concepts, facts, is_weighty = compiled or (None, None, None, is_weighty_in_python(text))
    return Named(
        _first(MAX_FILES, paths_in_python(text), unsaid) if files is None else files,
        _first(MAX_CONCEPTS, concepts_in_python(text), unsaid) if concepts is None else concepts,
        _first(MAX_FACTS, facts_in_python(text), unsaid) if facts is None else facts,
        is_weighty,
    )


def _first(limit: int, candidates: Iterable[str], unsaid: Set[str]) -> tuple[str, ...]:
    unsaid = unsaid | TOOLS
    return tuple(islice(dict.fromkeys(word for word in candidates if word.lower() not in unsaid), limit))


def paths_in_python(text: str) -> Iterator[str]:
    """All files that a text names: the specification of the compiled function."""
    if ":/" in text or "//" in text or "mailto:" in text:
        text = _URL.sub(" ", text)
    if "</" in text:
        text = _CLOSING_TAG.sub(" ", text)
    for word in dict.fromkeys([word for word in text.split() if "/" in word or "." in word]):
        if "/" in word or "." in word[:-1]:
            if word[0] == word[-1] == "*" and not word.strip("*").startswith("/"):  # bold
                word = word.strip("*")
            parts = [part.rpartition("=")[2].rstrip(TRIM) for part in tokens(word)]
            paths = [path for part in parts if _is_path(path := _LINE_NUMBER.sub("", part) if ":" in part else part)]
            if paths and not is_pattern(word.rstrip(".,:;!?")):
                yield from paths


def same_file(stored: str, requested: str) -> bool:
    """Whether two paths may name one file: equal, or one ends in the other at a slash; a leading `./` is ignored."""
    left, right = (path.strip().replace("\\", "/").removeprefix("./") for path in (stored, requested))
    return bool(left and right) and (left == right or left.endswith(f"/{right}") or right.endswith(f"/{left}"))


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


MAX_CONCEPTS = 12
MAX_FACTS = 5
FACT_CHARS = range(8, 201)
LONGEST_TERM = 201
_BACKTICKED = re.compile(r"`([^`\n]{2,60})`")
_NAME = re.compile(r"[A-Z](?<!\w[A-Z])\w++(?: [A-Z]\w++){1,3}")
_STOPWORDS = words(
    "the and for with from that this into e.g i.e file_path old_string new_string tool_name tool_input"
    " tool_output follow-up up-to-date so-called true false null none"
)
_STATES = words("is are was were uses use decided must prefers prefer should never always")
_NUMBER_OR_PAIR = re.compile(r"[0-9]|[:=](?<=\w.) ?\w")
_WORDS = re.compile(r"[^\W\d_]{2}")
_JSON_SYNTAX = re.compile(r"[{\[]\s*\\?\"|\\?\"\s*[:}\]]|\\\"")
_COMMAND = re.compile(r"(?:\A|\s)-{1,2}[a-zA-Z][\w-]*(?:[\s=]|\Z)|\A[-+]\S|\A[-+] {2,}")
"""A flag, or the sign of a patch's line; a list's has one space behind it."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_CAMEL_CASE = re.compile(r"[A-Z](?<=[a-z0-9][A-Z])")
_SENTENCE = re.compile(r"[^.!?。！？\n]*+(?:[.!?](?!\s)[^.!?。！？\n]*+)*+(?:[.!?。！？\n]|\Z)")


def concepts_in_python(text: str) -> Iterator[str]:
    """All concepts: the specification of the compiled function."""
    codes: list[str] = _BACKTICKED.findall(text) if "`" in text else []
    candidates = [code for code in codes if not is_pattern(code)]
    for match in _NAME.finditer(text):  # two to four capitalized words; the word that opens a sentence does not count
        before = text[max(0, match.start() - 2) : match.start()].rstrip(" ")
        name = match[0].partition(" ")[2] if not before or before[-1] in ".!?:\n" else match[0]
        candidates += [name] if " " in name else []
    terms = (token.strip(TRIM) for token in tokens(text))
    candidates += [word.removeprefix("#") for word in terms if _is_term(word)]
    distinct = dict.fromkeys([word.strip().lower() for word in candidates])
    return (word for word in distinct if len(word) > 2 and word not in _STOPWORDS and not word.startswith("mcp__"))


def _is_term(word: str) -> bool:
    """snake_case, camelCase, hyphen-ated or a #hashtag; a term starts with a letter."""
    if word.isalpha():
        is_term = _CAMEL_CASE.search(word) is not None
    elif word.startswith("#"):
        return word[1:2].isalpha() and word[1:].replace("-", "_").isidentifier()
    elif not word[:1].isalpha():
        return False
    elif "_" in word:
        is_term = word.isidentifier()
    elif "-" in word:
        is_term = "--" not in word and word[-1] != "-" and word.replace("-", "").isalnum() and not _UUID.fullmatch(word)
    else:
        is_term = word.isalnum() and _CAMEL_CASE.search(word) is not None
    return is_term and len(word) <= LONGEST_TERM and not is_base64(word)


def facts_in_python(text: str) -> Iterator[str]:
    """All facts: the specification of the compiled function."""
    for match in _SENTENCE.finditer(text):
        sentence = match[0].strip()
        if len(sentence) not in FACT_CHARS or sentence.endswith(("?", "？")):
            continue
        if not _NUMBER_OR_PAIR.search(sentence) and _STATES.isdisjoint(sentence.lower().split()):
            continue
        if _COMMAND.search(sentence) or ('"' in sentence and _JSON_SYNTAX.search(sentence)):
            continue
        if _WORDS.search(sentence):
            yield sentence


_WEIGHTY = words("fix fixed fixes bug root-cause regression decided decision must never always prefers prefer")


def is_weighty_in_python(text: str) -> bool:
    """Whether a text decides, fixes or demands something: the specification of the compiled function."""
    lowered = text.lower()
    return any(says(lowered, word) for word in _WEIGHTY)


_lists = (_STOPWORDS, _STATES, _WEIGHTY, TOOLS, _EXTENSIONS, _DOT_FILES, BEGINNINGS)
compiled_names = native.Names(*map(list, _lists))
