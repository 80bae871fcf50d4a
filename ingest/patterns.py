"""Patterns of callers (a lesson's trigger) and our own (shapes of secrets), matched in time linear in the text.

No pattern that a caller writes can hang a reader.

The syntax is RE2's (github.com/google/re2/wiki/Syntax): no look-around, no back-references; `\\d`, `\\w`, `\\s` and
`\\b` know ASCII only. Case is ignored. The worst a pattern within these bounds was seen to do is 40 microseconds a
character, so callers also bound the text.
"""

from collections.abc import Callable, Iterator
from functools import cache, cached_property, lru_cache
from typing import Any, Protocol, TypeAlias, cast

import re2

from ingest.errors import CommandRejected

MAX_PATTERN_CHARS = 500
MAX_PATTERN_MEMORY = 256 * 1024
"""The byte limit of one compiled pattern, including RE2's state cache, so that a full cache stays within 256 MiB."""
MAX_PROGRAM = 2_000
"""The instruction limit of a compiled pattern: each can cost a step at every character. Five hundred letters take 500
(1,500 outside ASCII), `.{0,200}` takes 1,800; larger patterns are mostly nested repetitions."""
CACHED_PATTERNS = 1024
AT_ONCE = 16
"""Built-in patterns that one automaton matches."""
SHAPE_MEMORY, RARE_MEMORY = 16 << 20, 4 << 20
"""The byte limit of such an automaton, or of one for a pattern's offsets; and of one for a rarely used pattern."""
FIELD = "trigger_pattern"

_Match: TypeAlias = Callable[[Any, bytes, int, int], list[tuple[int, int]]]
_ANYWHERE, _AT_START = cast(Any, re2)._Anchor.UNANCHORED, cast(Any, re2)._Anchor.ANCHOR_START
_Refused = cast(type[Exception], re2.error)
"""The package has no type hints."""


class Pattern(Protocol):
    """A compiled pattern. Takes UTF-8, which spares RE2's wrapper from counting characters."""

    @property
    def programsize(self) -> int:
        """The number of instructions it compiled to."""
        ...

    def search(self, text: bytes) -> object | None:
        """The first match, or None."""
        ...


def compiled(pattern: str) -> Pattern:
    """The pattern, ready to search; the same object for the same text while it is cached. Raises CommandRejected for
    one that is too long, that RE2 refuses, or that repeats too much. The empty pattern matches anything."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise CommandRejected(f"the pattern has {len(pattern):,} characters; the limit is {MAX_PATTERN_CHARS}", FIELD)
    outcome = _outcome(pattern)
    if isinstance(outcome, str):
        raise CommandRejected(
            f"invalid pattern: {outcome} (look-around and back-references are not supported, because"
            " matching must take linear time)",
            FIELD,
        )
    return outcome


def found_in(pattern: str, text: str) -> bool:
    """Whether the pattern occurs anywhere in the text; False for a pattern that `compiled` refuses."""
    try:
        return compiled(pattern).search(text.encode("utf-8", "replace")) is not None
    except CommandRejected:
        return False


@lru_cache(maxsize=CACHED_PATTERNS)
def _outcome(pattern: str) -> Pattern | str:
    """The compiled pattern, or why it cannot be used: a stored bad pattern must not be compiled at every read."""
    try:
        options = _options(MAX_PATTERN_MEMORY, groups=False)
        options.case_sensitive = False
        pattern_ = cast(Pattern, re2.compile(pattern.encode(), options))
    except UnicodeEncodeError:
        return "it contains half a surrogate pair"
    except _Refused as refused:
        reason: object = refused.args[0]
        return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    if pattern_.programsize > MAX_PROGRAM:
        return f"its repetitions take {pattern_.programsize:,} steps per character; the limit is {MAX_PROGRAM:,}"
    return pattern_


class BuiltInPattern:
    """One pattern of ours, compiled when first needed. Finds places without groups, which RE2 does several hundred
    times faster, and groups in those places alone."""

    def __init__(self, regex: str, *, longest: bool = False) -> None:
        self._regex = regex.encode()
        self._longest = longest

    def spans(self, raw: bytes) -> Iterator[tuple[int, int]]:
        """The places of all matches, from left to right; none overlaps another."""
        at = 0
        while at <= len(raw) and (span := self._places(_ANYWHERE, raw, at, len(raw))[0])[0] >= 0:
            yield span
            at = max(span[1], at + 1)

    def is_in(self, raw: bytes) -> bool:
        """Whether it matches anywhere."""
        return self._places(_ANYWHERE, raw, 0, len(raw))[0][0] >= 0

    def groups(self, raw: bytes, start: int, end: int) -> list[tuple[int, int]]:
        """The places of the match in one of those places, and of its groups; -1 for a group that took no part."""
        spans = self._groups(_AT_START, raw, start, end)
        return spans if spans[0][0] >= 0 else self._groups(_AT_START, raw, start, len(raw))

    def end(self, raw: bytes, start: int, limit: int | None = None) -> int:
        """Where a match that begins at `start` ends, before `limit`; 0 for none."""
        end = len(raw) if limit is None else min(limit, len(raw))
        return max(0, self._places(_AT_START, raw, start, end)[0][1])

    @cached_property
    def _places(self) -> _Match:
        options = _options(SHAPE_MEMORY, groups=False)
        options.longest_match = self._longest
        return _matching(self._regex, options)

    @cached_property
    def _groups(self) -> _Match:
        return _matching(self._regex, _options(SHAPE_MEMORY, groups=True))


def _matching(regex: bytes, options: Any) -> _Match:
    """RE2's own function: the package's wrapper of it takes longer than a match in a short text."""
    return cast(Any, re2.compile(regex, options))._regexp.Match


def which_match(patterns: list[str], usual: bytes = b"") -> Callable[[bytes], list[int]]:
    """What says which of the patterns match anywhere, by their numbers, in order.

    Nearly all need some word, and are tried where it is. One automaton for all has a state for each combination of what
    may have begun: new texts make it build ever more of them, up to a millisecond a text. Always tried, AT_ONCE
    together, are only patterns that need no word, or one that `usual` text has.
    """
    words: Any = re2.Filter()
    for pattern in patterns:
        words.Add(pattern.encode(), _options(SHAPE_MEMORY, groups=False))
    words.Compile()
    always: list[int] = words.Match(usual, True) or []
    groups = [always[start : start + AT_ONCE] for start in range(0, len(always), AT_ONCE)]
    together = [(group, _set([patterns[index] for index in group], SHAPE_MEMORY)) for group in groups]
    rare = frozenset(range(len(patterns))).difference(always)

    @cache
    def alone(index: int) -> Callable[[bytes], list[int] | None]:
        return _set([patterns[index]], RARE_MEMORY)

    def matching(raw: bytes) -> list[int]:
        found = [group[n] for group, match in together for n in match(raw) or ()]
        found += [index for index in words.Match(raw, True) or () if index in rare and alone(index)(raw)]
        return sorted(found)

    return matching


def which_begin(patterns: list[str]) -> Callable[[bytes], list[int]]:
    """What says which of the patterns match at the beginning of a text, by their numbers in order."""
    match = _set(patterns, SHAPE_MEMORY, re2.Set.MatchSet)
    return lambda raw: sorted(match(raw) or ())


def which_occur(words: list[str]) -> Callable[[str], list[int]]:
    """What says which of the words occur in a text, by their numbers in any order. It reads the text once for all."""
    match = _set([cast(str, re2.escape(word)) for word in words], RARE_MEMORY)
    return lambda text: match(text.encode("utf-8", "replace")) or []


def _set(patterns: list[str], memory: int, kind: Any = re2.Set.SearchSet) -> Callable[[bytes], "list[int] | None"]:
    pattern_set = kind(_options(memory, groups=False))
    for pattern in patterns:
        pattern_set.Add(pattern.encode())
    pattern_set.Compile()
    return cast("Callable[[bytes], list[int] | None]", pattern_set.Match)


def _options(memory: int, *, groups: bool) -> Any:
    options = re2.Options()
    options.max_mem = memory
    options.log_errors = False  # RE2 itself writes to stderr
    options.never_capture = not groups
    return options
