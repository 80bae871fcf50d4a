"""What an agent should know about the files it is about to touch, as text for its prompt. Pure.

Three parts, as agentmemory's clients expect: what earlier sessions saw in these files, what recall found, which bugs
were remembered. Guarantee: never longer than asked for, every part that is opened is closed, and nothing quoted can
close one.
"""

from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

from msgspec import Struct

from projections.compression.accounts import headline
from projections.documents.memories import Memory
from projections.documents.observations import Observation

LIMIT_CHARS = 4_000
MIN_IMPORTANCE = 4
"""Reads and searches still count: they are most of a file's history."""
PER_FILE = 5
HITS = 5
BUGS = 3
SEPARATOR = "\n\n"


class Enriched(Struct, frozen=True):
    """The text, empty when nothing is known; `truncated` when more was known than fits."""

    context: str
    truncated: bool


def enrich(
    file_history: Mapping[str, Sequence[Observation]],
    hits: Sequence[str],
    bugs: Sequence[Memory],
    limit_chars: int = LIMIT_CHARS,
) -> Enriched:
    """The parts that have something to say, cut to `limit_chars`.

    `file_history` holds for each file the observations of other sessions that name it (see `same_file`), `hits` the
    snippets that recall found, best first, `bugs` the remembered bugs that touch one of the files. Any may be empty.
    """
    bodies = {
        "agentmemory-file-context": _history_lines(file_history),
        "agentmemory-relevant-context": _hit_lines(hits),
        "agentmemory-past-errors": _bug_lines(bugs),
    }
    parts = [(tag, body) for tag, lines in bodies.items() if (body := "\n".join(lines))]
    context = SEPARATOR.join(_part(tag, body) for tag, body in parts)
    if len(context) <= limit_chars:
        return Enriched(context, False)
    return Enriched(_cut(parts, limit_chars), True)


def same_file(stored: str, wanted: str) -> bool:
    """Whether two paths may name one file: equal, or one ends in the other at a slash; a leading `./` is ignored."""
    one, other = _plain(stored), _plain(wanted)
    if not one or not other:
        return False
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def _history_lines(file_history: Mapping[str, Sequence[Observation]]) -> Iterator[str]:
    """A heading for each file that has a history, and its most important observations, the newest of equal ones."""
    for file, seen in file_history.items():
        telling = [one for one in seen if one.importance >= MIN_IMPORTANCE and headline(one)]
        if telling:
            yield f"## {_quoted(file)}"
        telling.sort(key=lambda one: one.id)
        telling.sort(key=lambda one: (one.importance, one.occurred_at), reverse=True)
        for one in telling[:PER_FILE]:
            yield f"- {one.occurred_at:%Y-%m-%d}: {_quoted(headline(one))}"


def _hit_lines(hits: Sequence[str]) -> Iterator[str]:
    yield from [line for hit in hits if (line := _quoted(hit))][:HITS]


def _bug_lines(bugs: Sequence[Memory]) -> Iterator[str]:
    """The newest of the bugs that still stand."""
    standing = sorted((bug for bug in bugs if bug.is_latest), key=lambda bug: bug.id)
    for bug in sorted(standing, key=lambda bug: bug.recorded_at, reverse=True)[:BUGS]:
        title, content = _quoted(bug.title), _quoted(bug.content)
        yield f"- {content}" if content.startswith(title) else f"- {title}: {content}"


def _cut(parts: Sequence[tuple[str, str]], limit_chars: int) -> str:
    """The parts that fit whole, and as much of the next as there is room for."""
    context = ""
    for tag, body in parts:
        lead = SEPARATOR if context else ""
        room = limit_chars - len(context) - len(lead)
        part = _part(tag, body)
        if len(part) > room:
            left = room - len(_part(tag, ""))
            return context + lead + _part(tag, _without_half_entity(body[:left])) if left > 0 else context
        context += lead + part
    return context


def _without_half_entity(escaped: str) -> str:
    """Escaped text whose end may have been cut within `&amp;` and the like."""
    start = escaped.rfind("&")
    return escaped[:start] if start >= 0 and ";" not in escaped[start:] else escaped


def _part(tag: str, body: str) -> str:
    return f"<{tag}>\n{body}\n</{tag}>"


def _quoted(text: str) -> str:
    """The text on one line, so that it cannot pass for a heading or an item of its own."""
    return escape(" ".join(text.split()))


def _plain(path: str) -> str:
    return path.strip().replace("\\", "/").removeprefix("./")
