"""The compact form of results: by session, whose date and name are stated once, and a line per result. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ingest.ids import shortened_id
from mcp_gateway.tools.recalled_document import RecalledDocument
from projections.text.sentences import is_courtesy
from projections.text.terms import query_terms_of, snippet
from projections.text.tokens import estimated_tokens

NOT_RECORDED, CLOSEST = "probably not recorded", 5
"""The certainty of an answer of which only the closest results are shown, and how many those are."""
AT_LENGTH, SHORT_CHARS = 4, 100
"""Results that have a title and their whole snippet where not all fit, and the characters of a later one's snippet.
Then 700 tokens have 81 % of the evidence instead of 75 on agents' work, 85 instead of 83 on LoCoMo, 66 instead of 60 on
RealMem, and a point less of the words of the answers."""
WHOLE_CHARS = 16_000
"""Of all results together: more is not shown whole, because it would be read on the event loop."""
OF_A_SESSION = ("observation", "summary")
_WORD = re.compile(r"\w+")


class Line(NamedTuple):
    """A result on a line, and the heading that it is under."""

    heading: str
    text: str
    id: str
    of: RecalledDocument


def grouped(lines: Sequence[Line], id_of: Callable[[str], str] = shortened_id) -> Iterator[str]:
    """The lines under their headings, in the order of the best of each; equal texts are one line with their number.

    `id_of` gives the form in which an id is shown. A result that another one probably replaces comes right after it.
    """
    by_heading: dict[str, list[Line]] = {}
    heading_of = {line.id: line.heading for line in lines}
    for line in lines:
        heading = heading_of.get(line.of.superseded_by, line.heading)
        by_heading.setdefault(heading, []).append(line)
    for heading, members in by_heading.items():
        yield heading
        ids_of: dict[tuple[str, str, str], list[str]] = {}
        for line in sorted(members, key=lambda line: _after(line, members)):
            ids_of.setdefault((line.text, line.of.title, line.of.snippet), []).append(line.id)
        for (text, *_), ids in ids_of.items():
            yield f"{id_of(ids[0])} {text}" + (f" ({len(ids)} times)" if len(ids) > 1 else "")


def _after(line: Line, members: Sequence[Line]) -> tuple[int, int]:
    """The place of a line; of a replaced one, the place of the line that replaces it."""
    places = {other.id: number for number, other in enumerate(members)}
    return places.get(line.of.superseded_by, places[line.id]), places[line.id]


def lines_of(results: Sequence[RecalledDocument], query: str = "") -> list[Line]:
    """Each result as a line, in their order; with a query, those after the first few are short."""
    authors: dict[str, set[str]] = {}
    for result in results:
        authors.setdefault(_group(result), set()).add(result.agent_id)
    terms = query_terms_of(query) if query else []
    texts = [text_of(result.title, result.snippet or result.content) for result in results]
    for number in range(AT_LENGTH, len(results) if query else 0):
        text = results[number].snippet or results[number].title
        texts[number] = snippet(text, terms, SHORT_CHARS)
    return [_line(result, text, authors[_group(result)]) for result, text in zip(results, texts, strict=True)]


def _group(result: RecalledDocument) -> str:
    """What a heading says of the results under it: their session, or that they have none."""
    parts = ["Memories and lessons"]
    if result.kind in OF_A_SESSION:
        parts = [f"{result.occurred_at:%Y-%m-%d}", *([f"session {result.session_id}"] if result.session_id else [])]
    return ", ".join([*parts, *([f"project {result.project}"] if result.project else [])])


def _line(result: RecalledDocument, text: str, authors: set[str]) -> Line:
    heading = _group(result)
    if len(authors) == 1 and result.agent_id:
        heading += f", by {result.agent_id}"
    elif result.agent_id and not text.casefold().startswith(result.agent_id.casefold()):
        text = f"{result.agent_id}: {text}"
    if result.kind not in OF_A_SESSION or result.superseded_by:
        text = f"({result.occurred_at:%Y-%m-%d}) {text}"
    remarks = ", ".join(_remarks(result))
    return Line(heading, f"{text} ({remarks})" if remarks else text, result.id, result)


def _remarks(result: RecalledDocument) -> Iterator[str]:
    """What a reader must know to trust a result."""
    if result.superseded_by:
        yield f"probably replaced by {shortened_id(result.superseded_by)}"
    if result.confirmed:
        yield f"confirmed {result.confirmed}x"
    yield from result.changed_since
    if result.valid_until:
        yield f"valid until {result.valid_until:%Y-%m-%d %H:%M} UTC"
    if result.trust in ("imported", "external"):
        yield result.trust


def text_of(title: str, text: str) -> str:
    """A text on a line after its title, unless that is a greeting or the text says most of it."""
    title, text = (" ".join(each.split()) for each in (title, text))
    words = _WORD.findall(title.casefold())
    words_of_text = {*_WORD.findall(text.casefold())}
    if not text:
        return title
    if 2 * sum(word in words_of_text for word in words) >= len(words) or is_courtesy(title):
        return text
    return f"{title.rstrip('.:')}: {text}"


def lines_within(results: Sequence[RecalledDocument], contents: Sequence[str], query: str, room: int) -> list[Line]:
    """The lines of an answer that have at most `room` tokens: with the whole texts of the results, or with their
    snippets, if all of them fit; otherwise those after the first few are short."""
    forms = [results]
    if sum(map(len, contents)) <= WHOLE_CHARS:
        pairs = zip(results, contents, strict=True)
        forms = [[replace(result, snippet=_whole(result.snippet, content)) for result, content in pairs], results]
    for form in forms:
        lines = lines_of(form)
        if len(selected := fitting_lines(lines, room)) == len(lines):
            return selected
    return fitting_lines(lines_of(results, query), room)


def _whole(snippet: str, content: str) -> str:
    """The text that a snippet is part of; the snippet where that is of other fields than the content."""
    content = " ".join(content.split())
    return content if snippet.strip("…") in content else snippet


def fitting_lines(lines: Sequence[Line], room: int) -> list[Line]:
    """The lines that have at most `room` tokens together with their headings."""
    headings = set[str]()

    def tokens_of(line: Line) -> int:
        heading = "" if line.heading in headings else f"{line.heading}\n"
        return estimated_tokens(f"{heading}{shortened_id(line.id)} {line.text}\n")

    selected = list[Line]()
    for line in lines:
        if (tokens := tokens_of(line)) <= room:
            room -= tokens
            headings.add(line.heading)
            selected.append(line)
    return selected
