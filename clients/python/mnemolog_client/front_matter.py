"""Front matter: the fields above the text of a Markdown file, as Obsidian and basic-memory write them.

Of YAML, only what notes use: texts, lists of texts, and of anything nested its lines.
"""

import json
import re
from collections.abc import Container, Mapping, Sequence
from typing import Any

_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"([A-Za-z_][\w -]*?):[ \t]*(.*)")
_ITEM = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,]+)\s*""")
_PLAIN = re.compile(r"[A-Za-z](?:[\w ./()-]*[\w.)])?|\d{4}-\d\d-\d\d[\d:TZ+-]*")
_NOT_TEXT = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
"""What YAML reads as a boolean or as nothing."""
_LINE_END = re.compile(r"[\x7f-\x9f\u2028\u2029]")
"""Control characters and line ends that JSON leaves as they are."""


def front_matter(content: str) -> tuple[dict[str, Any], str]:
    """The fields above a text, and the text; no fields if it has no front matter."""
    lines, body = front_lines(content)
    fields, is_list, name = dict[str, list[str]](), dict[str, bool](), ""
    for line in filter(_is_content, lines):
        if field := _FIELD.fullmatch(line):
            name, value = field[1], field[2].strip()
            is_list[name] = value.startswith("[") and value.endswith("]")
            items = _ITEM.findall(value[1:-1]) if is_list[name] else [value]
            fields[name] = list(filter(None, map(_unquoted, items)))
        elif line.strip().startswith("- ") and (is_list[name] or not fields[name]):
            is_list[name] = True
            fields[name].append(_unquoted(line.strip()[2:]))
        else:
            is_list[name] = False
            fields[name].append(line)
    return {name: texts if is_list[name] else "\n".join(texts) for name, texts in fields.items()}, body


def front_lines(content: str, without: Container[str] = ()) -> tuple[list[str], str]:
    """The lines of the front matter, except the fields `without`; and the text below it."""
    front = _FRONT.match(content)
    lines = front[1].splitlines() if front else []
    first = next(filter(_is_content, lines), "")
    if not front or not _FIELD.fullmatch(first):  # such as a text between two rules
        return [], content
    selected, is_selected = list[str](), True
    for line in lines:
        if field := _FIELD.fullmatch(line):
            is_selected = field[1] not in without
        if is_selected or not _is_content(line):
            selected.append(line)
    return selected, content[front.end() :]


def with_front_matter(fields: Mapping[str, str | int | Sequence[str]], others: Sequence[str], body: str) -> str:
    """A text below its fields, without empty ones, and below other lines of front matter."""
    lines = list[str]()
    for name, value in fields.items():
        if isinstance(value, str | int):
            lines += [f"{name}: {value if isinstance(value, int) else _quoted(value)}"] * bool(value)
        elif value:
            lines += [f"{name}:", *(f"  - {_quoted(item)}" for item in value)]
    return "\n".join(["---", *lines, *others, "---", body])


def _is_content(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#")


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    return _LINE_END.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) < 2 or value[0] != value[-1] or value[0] not in "\"'":
        return value
    if value[0] == "'":
        return value[1:-1].replace("''", "'")
    try:
        return json.loads(value, strict=False)
    except ValueError:
        return value[1:-1]
