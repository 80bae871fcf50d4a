"""What an observation is about, without a model: title, type, files, concepts, facts, narrative, importance.

Guarantee: a deterministic function of its arguments that never raises on JSON-like input. Work is linear in the input;
files, concepts and facts look at its first `SCAN_CHARS` characters only, and never say the name of a field, the name of
the tool, what was searched for by a pattern, JSON, or a data URL, which is named by a marker wherever it stood.

Hook-like data (tool calls, prompts, as agentmemory's hooks send them) is titled by its tool and narrated as
`prompt | input | output`; any other observation is titled and narrated by its own content.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, cast

import msgspec

from projections.compression.payloads import Reading, as_text, is_base64, named

TITLE_CHARS = 80
SUBTITLE_CHARS = 120
NARRATIVE_CHARS = 400
CONFIDENCE = 0.3
"""Below every model's and person's own: rules guessed this."""
MAX_FILES = 20
MAX_CONCEPTS = 12
MAX_FACTS = 5
SCAN_CHARS = 8_000
"""A hook cuts its longest text here; more of one observation adds no new topic worth the time."""
FACT_CHARS = range(8, 201)
LONGEST_TERM = 201


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_HOOK_FIELDS = ("tool_name", "tool_input", "tool_output", "error", "prompt", "hookType")
_TOOL_HOOKS = _words("post_tool_use post_tool_failure")
_OTHER_HOOKS = _words(
    "prompt_submit pre_tool_use pre_compact subagent_start subagent_stop notification task_completed stop"
    " session_start session_end"
)
_FILE_FIELDS = ("file_path", "filepath", "path", "filePath", "file", "notebook_path")
_PATH_CHARS = range(1, 512)

VALID_TYPES = _words(
    "error conversation subagent notification web_fetch search command_run file_edit file_write file_read"
    " decision discovery task image other"
    " bugfix feature refactor change pattern gotcha"  # what agent-memory's clients call theirs
)
_HOOK_TYPES = {
    "post_tool_failure": "error",
    "prompt_submit": "conversation",
    "subagent_stop": "subagent",
    "task_completed": "subagent",
    "notification": "notification",
}
_NAME_TYPES = (
    ("web_fetch", ("fetch", "http", "web")),
    ("search", ("grep", "search", "glob", "find")),
    ("command_run", ("bash", "shell", "exec", "run")),
    ("file_edit", ("edit", "update", "patch", "replace")),
    ("file_write", ("write", "create")),
    ("file_read", ("read", "view")),
    ("subagent", ("task", "agent")),
)
_IMPORTANCE = {
    "error": 8,
    "decision": 8,
    "discovery": 7,
    "conversation": 6,
    "task": 6,
    "file_edit": 6,
    "file_write": 6,
    # Low, yet a file's history still shows it (from 4 up) and auto-forget spares it (drops up to 2).
    "file_read": 4,
    "search": 4,
    "web_fetch": 4,
    "notification": 4,
}
_WEIGHTY = _words("fix fixed fixes bug root-cause regression decided decision must never always prefers prefer")
_WEIGHTY_PARTS = ("fix", "bug", "root-cause", "regression", "deci", "must", "never", "always", "prefer")
"""A text that holds none of these says none of those: looked for in the whole text, before its words."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n")
_SENTENCE = re.compile(r"[^.!?\n]*+(?:[.!?](?!\s)[^.!?\n]*+)*+(?:[.!?\n]|\Z)")
_CAMEL_CASE = re.compile(r"[A-Z](?<=[a-z0-9][A-Z])")
_PUNCTUATION = bytes.maketrans(b"\"'`()[]{}<>,;|*", b" " * 15)
_TRIM = ".:!?=&\\"
_BARE_PATH = re.compile(r"[A-Za-z0-9_/.-]*[A-Za-z0-9_/]")
"""A word that is its only part, with nothing to be cut off."""
_LINE_NUMBER = re.compile(r"(?::\d+){1,2}\Z")
_EXTENSIONS = _words(
    "py pyi js mjs cjs jsx ts tsx go rs java kt c h cc cpp hpp cs rb php swift scala sh sql html css scss"
    " vue md rst txt json jsonl yaml yml toml ini cfg conf env lock xml csv log lua ipynb proto tf png jpg"
    " svg pdf"
)
_DOT_FILES = (".env", ".conf", ".lock")
_BACKTICKED = re.compile(r"`([^`\n]{2,60})`")
_NAME = re.compile(r"[A-Z](?<!\w[A-Z])\w++(?: [A-Z]\w++){1,3}")
_STOPWORDS = _words(
    "the and for with from that this into e.g i.e file_path old_string new_string tool_name tool_input"
    " tool_output follow-up up-to-date so-called true false null none"
)
_STATES = _words("is are was were uses use decided must prefers prefer should never always")
_NUMBER_OR_PAIR = re.compile(r"[0-9]|[:=](?<=\w.) ?\w")
_WORDS = re.compile(r"[^\W\d_]{2}")
_JSON_SYNTAX = re.compile(r"[{\[]\s*\\?\"|\\?\"\s*[:}\]]|\\\"")
_UNNAMED = re.compile(r"[\"\n\r\0]")
"""What is in no file's name."""
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}:/{1,3}\S*|\bmailto:\S*|(?<![\w.@/-])//[\w.-]+\.\w+/\S*", re.IGNORECASE)
_CLOSING_TAG = re.compile(r"</[\w:.-]{1,100}\s*>")
_HOST = re.compile(
    r"(?:www\.[\w-]|(?:[\w-]+\.)+(?:com|org|net|io|dev|ai|app|co|gov|edu|info|cloud)(?::\d+)?/|localhost(?::\d+)?/"
    r"|\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?/|[\w.+-]+@[\w.-]+)",
    re.IGNORECASE,
)
_PATTERN = re.compile(
    r"[*^|]|\\[.*+?()\[\]{}^$|]|\\[wdsb][+*)]|\.[+]|\(\?|\?(?=[\w/.])|\{[^{}]{0,100},|\$\Z|\A[sy]/[^/]*/[^/]*/\w*\Z"
)
"""Signs of a glob, a regular expression or a substitution, which no file's name has."""
_PATTERN_SIGNS = re.compile(r"[*^|\\?{$+]")
"""What is in every glob and regular expression: looked for first, at a tenth of the price."""
TOOLS = _words(
    "bash bashoutput killshell killbash read write edit multiedit notebookedit notebookread grep glob ls task agent"
    " webfetch websearch todowrite todoread exitplanmode enterplanmode askuserquestion slashcommand skill tasklist"
    " taskcreate taskupdate taskget taskoutput taskstop listmcpresourcestool readmcpresourcetool apply_patch"
)
"""Tools of coding agents, lower-cased: their names say nothing of the work."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class Compressed(msgspec.Struct, frozen=True):
    """The searchable short form of one observation; lists are distinct, in order of appearance."""

    title: str
    subtitle: str | None
    type: str
    files: tuple[str, ...]
    concepts: tuple[str, ...]
    facts: tuple[str, ...]
    narrative: str
    importance: int
    confidence: float = CONFIDENCE


class _Hook(msgspec.Struct, frozen=True):
    """The parts of hook-like data that are read; a part that its hook type does not carry is None."""

    kind: str | None
    tool: str | None = None
    input: Any = None
    output: Any = None
    prompt: Any = None


def compress(kind: str, content: str, data: dict[str, Any] | None = None) -> Compressed:
    """Returns the short form of an observation.

    `kind` stays as the type when it is one of `VALID_TYPES`; else the hook, then the words of the tool's name or of
    `kind`, decide. Importance is the type's (5 unless listed), one more when the text decides, fixes or demands
    something and the type is not a reading one; at most 10.
    """
    data = data or {}
    hook = _hook(kind, data)
    parts = (hook.prompt, hook.input, hook.output) if hook else ()
    narrative = _cut(" | ".join(filter(None, (as_text(part, NARRATIVE_CHARS) for part in parts))), NARRATIVE_CHARS)
    shown = named(content.strip())
    narrative = narrative or _cut(shown or as_text(data, NARRATIVE_CHARS), NARRATIVE_CHARS)
    reading = Reading(is_tool_use=hook is not None)
    beside = reading.value(data, SCAN_CHARS) if data else ""
    text = reading.text(content[:SCAN_CHARS]).strip() if content.strip() else beside
    unsaid = reading.names | TOOLS if reading.names else TOOLS
    found_type = _type(kind, hook)
    input_ = hook.input if hook else None
    if hook:
        title = hook.tool or hook.kind or "observation"
    else:
        title = _headline(text if shown.startswith(("{", "[", '"')) else shown) or kind
    return Compressed(
        title=_cut(title, TITLE_CHARS) or "observation",
        subtitle=_cut(as_text(input_, SUBTITLE_CHARS), SUBTITLE_CHARS) or None,
        type=found_type,
        files=_input_files(input_, unsaid) if input_ is not None else _files((text, beside if content else ""), unsaid),
        concepts=_concepts(text, unsaid),
        facts=tuple(islice(_facts(text, unsaid), MAX_FACTS)),
        narrative=narrative,
        importance=_importance(found_type, text),
    )


def spoken(text: str) -> str:
    """What a text says: itself, unless there is JSON in it, of which the values are left, or embedded data."""
    return Reading().text(text).strip()


def told_by(value: Any) -> str:
    """What the texts of a JSON value say, or of JSON text, as far as SCAN_CHARS go; "" for nothing."""
    return Reading(is_tool_use=True).value(value, SCAN_CHARS).strip() if value else ""


def _hook(kind: str, data: dict[str, Any]) -> _Hook | None:
    """Returns the hook's parts, or None for a native observation."""
    named = data.get("hookType")
    hook_kind = named if isinstance(named, str) else kind if kind in _TOOL_HOOKS or kind in _OTHER_HOOKS else None
    if hook_kind is None and all(data.get(field) is None for field in _HOOK_FIELDS):
        return None
    tool = input_ = output = prompt = None
    if hook_kind is None or hook_kind in _TOOL_HOOKS:
        name = data.get("tool_name")
        tool = name if isinstance(name, str) else None
        input_ = data.get("tool_input")
        output = data.get("tool_output")
        output = data.get("error") if output is None else output
    if hook_kind is None or hook_kind == "prompt_submit":
        prompt = data.get("prompt")
    return _Hook(hook_kind or kind or None, tool, input_, output, prompt)


def _tokens(text: str) -> list[str]:
    """The words of a text, without punctuation around them."""
    # through bytes, whose table is applied in a fifth of the time; UTF-8 has these bytes in no other character
    encoded = text.encode("utf-8", "surrogatepass").translate(_PUNCTUATION)
    return encoded.decode("utf-8", "surrogatepass").split()


def _type(kind: str, hook: _Hook | None) -> str:
    if kind in VALID_TYPES and (hook is None or hook.kind not in _HOOK_TYPES):
        return kind
    if hook and hook.kind in _HOOK_TYPES:
        return _HOOK_TYPES[hook.kind]
    return _type_of_name(((hook and hook.tool) or ("" if kind in _OTHER_HOOKS else kind))[:SUBTITLE_CHARS])


@lru_cache(maxsize=1024)
def _type_of_name(name: str) -> str:
    """Returns the type whose word is a whole segment, or the beginning or the end, of the snake-cased name."""
    name = _CAMEL.sub("_", name).replace("-", "_").replace(" ", "_").lower()
    segments = name.split("_")
    for found, words in _NAME_TYPES:
        if name.startswith(words) or name.endswith(words) or not set(words).isdisjoint(segments):
            return found
    return "other"


def _importance(found_type: str, text: str) -> int:
    base = _IMPORTANCE.get(found_type, 5)
    if base < 5:
        return base
    lowered = text.lower()
    for part in _WEIGHTY_PARTS:
        if part in lowered:
            break
    else:  # nearly all: a look at each token costs 20 times it
        return base
    return base + (not _WEIGHTY.isdisjoint([token.rstrip(_TRIM) for token in _tokens(lowered)]))


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _headline(content: str) -> str:
    """Returns the first sentence or line, whichever ends first."""
    head = content.lstrip()[: 4 * TITLE_CHARS]
    end = _SENTENCE_END.search(head)
    return head[: end.end()].rstrip() if end else head.rstrip()


def _input_files(tool_input: Any, unsaid: Collection[str]) -> tuple[str, ...]:
    """Returns the files a tool was pointed at; none when its input is no object, nor the JSON text of one."""
    if isinstance(tool_input, str):
        reading = Reading()
        reading.text(tool_input[:SCAN_CHARS])
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
    if _URL.match(text) or _HOST.match(text) or _is_pattern(text):
        return False
    return named(text) == text


def _files(texts: Iterable[str], unsaid: Collection[str]) -> tuple[str, ...]:
    paths = (path for text in texts for path in _paths(text))
    return tuple(islice(dict.fromkeys(path for path in paths if path.lower() not in unsaid), MAX_FILES))


def _paths(text: str) -> Iterator[str]:
    if ":/" in text or "//" in text or "mailto:" in text:
        text = _URL.sub(" ", text)
    if "</" in text:
        text = _CLOSING_TAG.sub(" ", text)
    for word in dict.fromkeys([word for word in text.split() if "/" in word or "." in word]):
        if "." not in word[:-1] and "/" not in word:
            continue
        if word[0] == word[-1] == "*" and not word.strip("*").startswith("/"):  # bold
            word = word.strip("*")
        if word.isascii() and _BARE_PATH.fullmatch(word):
            parts = [word]
        else:
            parts = [part.rpartition("=")[2].rstrip(_TRIM) for part in _tokens(word)]
        paths = [path for part in parts if _is_path(path := _LINE_NUMBER.sub("", part) if ":" in part else part)]
        if paths and not _is_pattern(word.rstrip(".,:;!?")):
            yield from paths


def _is_pattern(text: str) -> bool:
    return (text[1:2] == "/" or _PATTERN_SIGNS.search(text) is not None) and _PATTERN.search(text) is not None


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


def _concepts(text: str, unsaid: Collection[str]) -> tuple[str, ...]:
    """Returns backticked words, then names, then identifiers, hyphenated words and hashtags, lower-cased."""
    found = [code for code in _BACKTICKED.findall(text) if not _is_pattern(code)] if "`" in text else []
    found += _names(text)
    tokens = _tokens(text)
    if _CAMEL_CASE.search(text):
        unusual = [token for token in tokens if not (token.isalpha() and token.islower())]
    else:  # then no run of letters is a term
        unusual = [token for token in tokens if not token.isalpha()]
    found += [word.removeprefix("#") for token in unusual if _is_term(word := token.strip(_TRIM))]
    words = dict.fromkeys(word.strip().lower() for word in found)
    said = (word for word in words if word not in unsaid and not word.startswith("mcp__"))
    told = (word for word in said if len(word) > 2 and word not in _STOPWORDS)
    return tuple(islice(told, MAX_CONCEPTS))


def _is_term(word: str) -> bool:
    """snake_case, camelCase, hyphen-ated or a #hashtag; a term starts with a letter."""
    if word.isalpha():
        is_one = _CAMEL_CASE.search(word) is not None
    elif word.startswith("#"):
        return word[1:2].isalpha() and word[1:].replace("-", "_").isidentifier()
    elif not word[:1].isalpha():
        return False
    elif "_" in word:
        is_one = word.isidentifier()
    elif "-" in word:
        is_one = "--" not in word and word[-1] != "-" and word.replace("-", "").isalnum() and not _UUID.fullmatch(word)
    else:
        is_one = word.isalnum() and _CAMEL_CASE.search(word) is not None
    return is_one and len(word) <= LONGEST_TERM and not is_base64(word)


def _names(text: str) -> Iterator[str]:
    """Yields runs of two to four capitalised words; the word that opens a sentence does not count."""
    for found in _NAME.finditer(text):
        before = text[max(0, found.start() - 2) : found.start()].rstrip(" ")
        name = found[0]
        if not before or before[-1] in ".!?:\n":
            name = name.partition(" ")[2]
        if " " in name:
            yield name


def _facts(text: str, unsaid: Collection[str]) -> Iterator[str]:
    """Yields the short sentences that state something: a number, a `key: value` pair or a verb of `_STATES`."""
    for found in _SENTENCE.finditer(text):
        sentence = found[0].strip()
        if len(sentence) not in FACT_CHARS or sentence.endswith("?"):
            continue
        if not _NUMBER_OR_PAIR.search(sentence) and _STATES.isdisjoint(sentence.lower().split()):
            continue
        is_json = '"' in sentence and _JSON_SYNTAX.search(sentence)
        if not is_json and _WORDS.search(sentence) and sentence.lower() not in unsaid:
            yield sentence
