"""Secrets and private text are taken out of a write before it is stored, indexed or broadcast.

Guarantee: a text holding one of the shapes in `ingest.secrets` comes back without it, and scrubbing twice changes
nothing more. Shapes are matched leaf by leaf, never over JSON text, so that a secret at the end of a string cannot
swallow the quote that closes it. The shapes that agentmemory removes are among them, with its markers.

Every write pays for this, so RE2 is first asked which shapes match at all: those whose words a text has, and the few
that need none, in a few passes whatever the number of shapes. Ordinary text has none. Everything takes time linear in
the text: RE2 by design, the rest because its repetitions are possessive or bounded and no failed attempt can rescan
what another one read.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from operator import is_
from typing import Any, NamedTuple, TypeAlias, cast

from ingest.patterns import which_match
from ingest.secrets import plausible
from ingest.secrets.finders import Finder, finder, finders, rules, tokens
from ingest.secrets.grammar import check_of, find_labelled, is_secret
from ingest.secrets.reading import read

Trigger: TypeAlias = Callable[[bytes], list[int]]
PRIVATE = "[REDACTED]"
SECRET = "[REDACTED_SECRET]"
_PIECE_CHARS = 64 << 10
MAX_DEPTH = 128
"""The nesting limit of a value. JSON encoders fail at the interpreter's 1,000 frames, and a level takes two here."""


class NestedTooDeep(ValueError):
    """A value nests further than a write may."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"nested deeper than {limit} levels")
        self.limit = limit


class KeyIsNoText(ValueError):
    """A mapping has a key that is no text, which msgpack allows and JSON does not."""

    def __init__(self, key: object) -> None:
        super().__init__(f"the key {key!r} is not text")


_SHORTEST = 6
_SHORTEST_VALUE = 4
_LONGEST_NAME = 128
_PRIVATE_KEY, _KUBERNETES = ("d", "p", "q", "dp", "dq", "qi", "k"), ("data", "stringData")
"""The secret fields of a JSON web key, and of a Kubernetes Secret."""
_ALL = "*"
"""Names whose values are always secret."""
_HEADERS = frozenset(("authorization", "proxy-authorization", "cookie", "set-cookie", "cookie2", "set-cookie2"))
_PASSES = 8
"""Removing a secret can join texts that then look like a secret; the second pass almost never finds anything."""


class _Family(NamedTuple):
    """Secrets of one shape: what tells that a text may hold one, what finds them, what takes their place."""

    trigger: str
    find: Finder
    marker: str = SECRET


_USUAL = b"user set export pat machine key= code: token login --f pass pin password secret access account env http:// <"
"""Words that much of what agents write has: shapes that need one of them are always looked for."""


@cache
def _families() -> tuple[list[_Family], Trigger]:
    families = [_Family(*block) for block in finders(lambda text: scrub_text(text) is not text)]
    families += [_Family(*tokens())]
    families += [_Family(rule.regex, finder(rule)) for rule in rules()]
    families[0] = families[0]._replace(marker=PRIVATE)
    return families, which_match([family.trigger for family in families], _USUAL)


def scrub_text(text: str) -> str:
    """Returns `text` without private blocks and secrets; the same object when it holds none."""
    if len(text) < _SHORTEST:
        return text
    for _ in range(_PASSES):
        if not (spans := list(_found(text))):
            break
        text = _without(text, spans)
    return text


def _found(text: str) -> Iterator[tuple[int, int, str]]:
    """Return where a text has something to remove: begin and end, and the mark for it."""
    raw = read(text)
    families, match = _families()
    for family in [families[index] for index in match(raw)]:
        yield from ((*span, family.marker) for span in family.find(raw, text))
    yield from ((*span, SECRET) for span in find_labelled(raw, text))


def without_marks(text: str) -> str:
    """Return a text without the marks of what was removed: they are neither words nor concepts."""
    return text.replace(SECRET, " ").replace(PRIVATE, " ") if PRIVATE[:-1] in text else text


def is_only_marks(text: str) -> bool:
    """Whether a text consists of nothing but the marks of what was removed: it is no title, and states nothing."""
    return PRIVATE[:-1] in text and not any(map(str.isalnum, without_marks(text)))


def beginning(text: str, limit: int) -> str:
    """Returns the first characters of a text without secrets: what a cut leaves of one would have no shape any more."""
    return scrub_text(text)[:limit]


def is_clean(texts: list[str]) -> bool:
    """Whether scrubbing changes none of the texts: one question about all of them together."""
    joined = "\n\0".join(texts)  # NUL tells where one begins
    raw = read(joined)
    return not _families()[1](raw) and not any(find_labelled(raw, joined)) and repair_text(joined) is joined


def scrub(value: Any) -> Any:
    """Returns `value` with every string leaf and key repaired and scrubbed; the same object when nothing changed.

    Walks dict, list and tuple. A string under a key that names a secret (`password`, `accessToken`), directly or in a
    list, is read as its value; so is what follows such a name in a pair, in a list of arguments, and in an object of
    `name` and `value`. Two keys that become equal are numbered. Raises `NestedTooDeep` beyond `MAX_DEPTH` levels, and
    `KeyIsNoText`.
    """
    texts: list[str] = []
    if gather(value, texts) and is_clean(texts):
        return value
    return _walk(value, name="", depth=0)


def repair_text(text: str) -> str:
    """Returns `text` with split surrogate pairs joined and lone ones replaced by U+FFFD; else the same object."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        pass
    else:
        return text
    pieces: list[str] = []
    start = 0
    while start < len(text):  # in pieces: one call over megabytes of lone surrogates would block all other threads
        end = start + _PIECE_CHARS
        end += "\ud800" <= text[end - 1 : end] <= "\udbff"  # no pair is split
        pieces.append(text[start:end].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
        start = end
    return "".join(pieces)


def gather(value: Any, texts: list[str], depth: int = 0) -> bool:
    """Collect all texts of a value in `texts`; False when names in it, or its shape, ask for a closer look."""
    if isinstance(value, str):
        texts.append(value)
        return True
    if isinstance(value, dict):
        if depth == MAX_DEPTH:
            return False
        for key, item in cast(dict[Any, Any], value).items():
            if not isinstance(key, str) or key in ("value", "kty") or check_of(key) is not None:
                return False
            texts.append(key)
            if key == "kind" and item == "Secret":
                return False
            if not gather(item, texts, depth + 1):
                return False
        return True
    if not isinstance(value, list | tuple):
        return True
    items = cast(list[Any] | tuple[Any, ...], value)
    if depth == MAX_DEPTH or any(isinstance(entry, str) and (len(items) == 2 or entry[:1] == "-") for entry in items):
        return False
    return all(gather(entry, texts, depth + 1) for entry in items)


def _walk(value: Any, *, name: str, depth: int) -> Any:
    if isinstance(value, str):
        text = repair_text(value)
        return scrub_text(_scrub_named(text, name) if name and len(text) >= _SHORTEST_VALUE else text)
    if not isinstance(value, (dict, list, tuple)):
        return value
    if depth == MAX_DEPTH:
        raise NestedTooDeep(MAX_DEPTH)
    if isinstance(value, dict):
        return _walk_dict(cast(dict[Any, Any], value), name=name, depth=depth + 1)
    items = cast(list[Any] | tuple[Any, ...], value)
    fresh = [_walk(item, name=_name_before(items, at) or name, depth=depth + 1) for at, item in enumerate(items)]
    if all(map(is_, fresh, items)):
        return items
    return tuple(fresh) if isinstance(items, tuple) else fresh


def _walk_dict(value: dict[Any, Any], *, name: str, depth: int) -> dict[Any, Any]:
    fresh: dict[Any, Any] = {}
    numbers = Counter[str]()
    changed = False
    label = value.get("name") or value.get("key")
    private = _PRIVATE_KEY if "kty" in value else _KUBERNETES if value.get("kind") == "Secret" else ()
    for key, item in value.items():
        if not isinstance(key, str):
            raise KeyIsNoText(key)
        new_key = scrub_text(repair_text(key))
        child = label if key == "value" and isinstance(label, str) else key
        new = _walk(item, name=_ALL if key in private or name == _ALL else child, depth=depth)
        if new_key is not key:
            changed = True
            new_key = new_key if new_key == repair_text(key) else _free(new_key, numbers, value, fresh)
        changed = changed or new is not item
        fresh[new_key] = new
    return fresh if changed else value


def _free(key: str, numbers: Counter[str], *taken: dict[str, Any]) -> str:
    """The key, numbered if it is taken: two keys that held secrets keep a value each. `numbers` has the highest number
    given to each key, so that many such keys take linear time."""
    name = key if not numbers[key] else f"{key} ({numbers[key] + 1})"
    numbers[key] += 1
    while any(name in item for item in taken):
        numbers[key] += 1
        name = f"{key} ({numbers[key]})"
    return name


def _name_before(items: list[Any] | tuple[Any, ...], at: int) -> str:
    """What the entry before names, in a list of arguments (`--password`, ...) or a pair (`Authorization`, ...)."""
    before = items[at - 1] if at else None
    if isinstance(before, str) and (before.startswith("-") or len(items) == 2) and len(before) <= _LONGEST_NAME:
        return before
    return ""


def _scrub_named(text: str, name: str) -> str:
    """The text without what the name before it makes a secret."""
    if name == _ALL:
        return SECRET if plausible.literal(text) else text
    if name.lower() in _HEADERS:
        prefix = f"{name}: "
        cleaned = scrub_text(prefix + text)
        return cleaned.removeprefix(prefix) if cleaned.startswith(prefix) else SECRET
    return SECRET if is_secret(text.strip(), name) else text


def _without(text: str, spans: list[tuple[int, int, str]]) -> str:
    """The text with a marker for each run of places that overlap: that of the first."""
    spans.sort(key=lambda span: (span[0], -span[1]))
    parts: list[str] = []
    last = 0
    for start, end, marker in spans:
        if start >= last:
            parts += (text[last:start], marker)
        last = max(last, end)
    return "".join((*parts, text[last:]))
