"""Edits a JSON text: writes a new value into it, and leaves unchanged parts byte for byte.

Comments and trailing commas, which some editors allow in settings, are ignored and preserved.
"""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeGuard

# also matches strings and comments without an end, or the search for it would start again at each quote in them
_STRING = r'("(?:[^"\\\n]|\\.)*+"?)'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?(?:\*/|(\Z))", re.DOTALL)
_TRAILING_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)
_NO_NEWLINE = re.compile(r"[^\r\n]")
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder(strict=False)


class Unreadable(ValueError):
    """The text is invalid; the message says where."""


def parse(text: str, *, comments: bool = False) -> Any:
    """The value; raises Unreadable with line and column."""
    try:
        return json.loads(_blanked(text) if comments else text, strict=False)
    except json.JSONDecodeError as error:
        raise Unreadable(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise Unreadable("nested too deeply") from None


def rewrite(text: str, value: Any, *, comments: bool = False) -> str:
    """The text with the new value; new keys come last. Raises Unreadable."""
    old = parse(text, comments=comments)
    plain = _blanked(text) if comments else text
    start = _past_space(plain, 0)
    end = len(plain.rstrip())
    new = text[:start] + _JsonText(text, plain).changed(start, end, old, value, "") + text[end:]
    with suppress(Unreadable):
        if parse(new, comments=comments) == value:
            return new
    raise Unreadable("an edit would break its comments; edit it by hand")


def write(value: Any) -> str:
    """The text of a new file."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def same(old: Any, new: Any) -> bool:
    """Whether two values have the same text: 1, 1.0 and true differ, and so do two orders of keys."""
    return json.dumps(old) == json.dumps(new)


class _Part(NamedTuple):
    """A member of an object, starting at its key, or an item of an array."""

    start: int
    value_start: int
    end: int
    key: str
    value: Any


class _JsonText:
    """The text to rewrite. `plain` is the same text with comments blanked, position for position."""

    def __init__(self, text: str, plain: str) -> None:
        self._text, self._plain = text, plain
        indent = _INDENT.search(text)
        self._unit = indent.group(1) if indent else "  "
        self._newline = "\r\n" if "\r\n" in text else "\n"

    def changed(self, start: int, end: int, old: Any, new: Any, indent: str) -> str:
        """The part from `start` to `end`, rewritten for the new value; `indent` is that of its line."""
        if same(old, new):
            return self._text[start:end]
        if is_object(old) and is_object(new):
            return self._object(start, end, new, indent)
        if is_array(old) and is_array(new):
            return self._array(start, end, new, indent)
        return self._written(new, indent)

    def _object(self, start: int, end: int, new: dict[str, Any], indent: str) -> str:
        parts = self._parts(start)
        inner = self._inner_indent(parts, start, indent)
        last = {part.key: part for part in parts}  # the last of duplicate keys is valid

        def text_of(part: _Part) -> str | None:
            if part.key not in new:
                return None
            if part is not last[part.key]:
                return self._text[part.start : part.end]
            value = self.changed(part.value_start, part.end, part.value, new[part.key], inner)
            return self._text[part.start : part.value_start] + value

        texts = [text_of(part) for part in parts]
        added = [(f"{json.dumps(key, ensure_ascii=False)}: ", new[key]) for key in new if key not in last]
        return self._joined(start, end, parts, texts, added, indent)

    def _array(self, start: int, end: int, new: list[Any], indent: str) -> str:
        parts = self._parts(start)
        inner = self._inner_indent(parts, start, indent)
        indexes = _new_indexes([part.value for part in parts], new)
        if indexes is None:
            return self._written(new, indent)
        texts = [
            None if index is None else self.changed(part.start, part.end, part.value, new[index], inner)
            for part, index in zip(parts, indexes, strict=True)
        ]
        added = [("", value) for value in new[sum(index is not None for index in indexes) :]]
        return self._joined(start, end, parts, texts, added, indent)

    def _joined(
        self,
        start: int,
        end: int,
        parts: list[_Part],
        texts: list[str | None],
        added: list[tuple[str, Any]],
        indent: str,
    ) -> str:
        """The container of these parts (None for a removed one) and of those added after them."""
        edges = zip([start + 1, *(part.end for part in parts)], [*(part.start for part in parts), end - 1], strict=True)
        first, *gaps = [self._text[before:after] for before, after in edges]
        inner = self._inner_indent(parts, start, indent)
        one_line = bool(parts) and "\n" not in first + "".join(gaps)
        lead, rest = first.rstrip(), gaps[-1] if parts else ""
        out, count = self._text[start] + lead, 0
        for text, gap in zip(texts, [first[len(lead) :], *gaps], strict=False):
            if text is None:  # its comments stay
                comma = _blanked(gap).find(",")
                out += (gap[:comma] + gap[comma + 1 :] if comma >= 0 else gap).rstrip()
                continue
            out += (gap if count else first[len(lead) :]) + text
            count += 1
        body = rest.rstrip()
        for label, value in added:
            if count:
                out += (body if "," in _blanked(body) else f",{body}") + (" " if one_line else self._newline + inner)
                out += label + (json.dumps(value, ensure_ascii=False) if one_line else self._written(value, inner))
                rest = rest[len(body) :]
            else:
                out += self._newline + inner + label + self._written(value, inner)
                one_line, rest = False, self._newline + indent
            body, count = "", count + 1
        if not count:
            rest = self._newline + indent if out[1:] else ""
        return out + rest + self._plain[end - 1]

    def _written(self, value: Any, indent: str) -> str:
        lines = json.dumps(value, indent=self._unit, ensure_ascii=False).split("\n")
        return (self._newline + indent).join(lines)

    def _inner_indent(self, parts: Sequence[_Part], start: int, indent: str) -> str:
        """The indent of a container's parts: that of the first, if it is on its own line."""
        if parts and "\n" in (gap := self._plain[start + 1 : parts[0].start]):
            return gap.rpartition("\n")[2]
        return indent + self._unit

    def _parts(self, start: int) -> list[_Part]:
        """The members or items of the well-formed container that begins at `start`."""
        plain, parts = self._plain, list[_Part]()
        keyed, begin = plain[start] == "{", _past_space(plain, start + 1)
        while plain[begin] not in "}]":
            key, at = _DECODER.raw_decode(plain, begin) if keyed else ("", begin)
            if keyed:
                at = _past_space(plain, _past_space(plain, at) + 1)
            value, after = _DECODER.raw_decode(plain, at)
            parts.append(_Part(begin, at, after, key, value))
            begin = _past_space(plain, after)
            if plain[begin] == ",":
                begin = _past_space(plain, begin + 1)
        return parts


def _new_indexes(old: list[Any], new: list[Any]) -> list[int | None] | None:
    """The new index of every old item, None for a removed one; None if the change is not simple.

    Simple: all items stay or change in place and others are appended, or some are removed and the rest is unchanged.
    """
    if len(new) >= len(old):
        return list(range(len(old)))
    indexes: list[int | None] = []
    matched = 0
    for item in old:
        matches = matched < len(new) and same(item, new[matched])
        indexes.append(matched if matches else None)
        matched += matches
    return indexes if matched == len(new) else None


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Whether a JSON value is an array."""
    return isinstance(value, list)


def _past_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _blanked(text: str) -> str:
    """The text with comments and trailing commas as spaces, every other character in its place."""
    text = _COMMENT.sub(lambda match: match[0] if match.lastindex else _NO_NEWLINE.sub(" ", match[0]), text)
    return _TRAILING_COMMA.sub(lambda match: match[0] if match.lastindex else " ", text)
