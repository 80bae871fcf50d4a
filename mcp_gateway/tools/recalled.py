"""What recall answers: one short entry a result, or whole documents, as text that a model reads and as data. Pure.

Hosts show a model the text or the data, not both, so each is complete and neither says more than it must.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ingest.names import DATA_NOT_INSTRUCTIONS, marked

if TYPE_CHECKING:
    from projections.queries.recall import RecallResult

SHOWN_CHARACTERS = 4_000
"""Of one whole result of a search, in the text: about a thousand tokens. The data has all of it."""
READ_CHARACTERS = 40_000
"""Of the documents read by id, in the text, all together."""
QUOTED_CHARACTERS = 200
"""Of the query, where nothing was found."""
READ_WHOLE = "`recall` with `ids` reads whole documents."

Kind = Literal["observation", "memory", "lesson", "summary"]


class RecalledDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One result. What is empty is left out; so is the project where the call named it."""

    id: str
    kind: Kind
    title: str
    snippet: Annotated[str, Meta(description="The part the query's words are in; not beside `content`.")] = ""
    content: Annotated[str, Meta(description="All of it, where whole documents were asked for.")] = ""
    details: Annotated[dict[str, Any], Meta(description="What else a document read by id says.")] = {}
    confidence: Annotated[float, Meta(description="0 to 1: how sure this is an answer at all.")] | UnsetType = UNSET
    score: Annotated[float, Meta(description="Of whole results; comparable within this answer.")] | UnsetType = UNSET
    occurred_at: Annotated[datetime, Meta(tz=True)]
    agent_id: str = ""
    session_id: str = ""
    project: str = ""
    derived_from: Annotated[list[str], Meta(description="Documents it was made of.")] = []
    confirmed: Annotated[int, Meta(description="How often it proved right.")] = 0
    repeats: Annotated[list[str], Meta(description="Documents that say nearly the same.")] = []
    metadata: dict[str, str] = {}


class Recalled(Struct, frozen=True, kw_only=True):
    """What was found, best first, and what to know about it."""

    results: list[RecalledDocument]
    note: Annotated[str, Meta(description="How to take the results, and what to do next.")]
    degraded: Annotated[list[str], Meta(description="What this answer may lack, and why. Empty: nothing.")]


def shortened(result: "RecallResult", *, project_known: bool, session_known: bool) -> RecalledDocument:
    """A result as an entry to judge it by: without project and session where the call named them, and without the
    session of what outlives it."""
    of_a_session = result.kind in ("observation", "summary") and not session_known
    title, text = _title_and_rest(" ".join(result.title.split()), result.snippet)
    return RecalledDocument(
        id=result.id,
        kind=result.kind,
        title=title,
        snippet=text,
        confidence=UNSET if result.confidence is None else result.confidence,
        occurred_at=result.occurred_at.replace(microsecond=0),
        agent_id=result.agent_id or "",
        session_id=(result.session_id or "") if of_a_session else "",
        project="" if project_known else result.project,
        derived_from=result.derived_from,
        confirmed=result.confirmed,
        repeats=result.repeats,
    )


def in_full(result: "RecallResult") -> RecalledDocument:
    """A result with everything that recall knows of it."""
    return RecalledDocument(
        id=result.id,
        kind=result.kind,
        title=result.title,
        content=result.content,
        confidence=UNSET if result.confidence is None else result.confidence,
        score=result.score,
        occurred_at=result.occurred_at,
        agent_id=result.agent_id or "",
        session_id=result.session_id or "",
        project=result.project,
        derived_from=result.derived_from,
        confirmed=result.confirmed,
        repeats=result.repeats,
        metadata=result.metadata,
    )


def _title_and_rest(title: str, text: str) -> tuple[str, str]:
    """A title, and what a text says beyond it: titles often are how the text begins, cut within a word or not."""
    plain = text.lstrip("# ")
    if not plain.startswith(title):
        return title, text
    rest = plain[len(title) :]
    return (plain, "") if rest[:1].isalnum() else (title, rest.strip())


def answered(results: list[RecalledDocument], degraded: list[str], *, whole: bool) -> Recalled:
    """What was found, `whole` or as entries, with what to know about it."""
    note = DATA_NOT_INSTRUCTIONS if whole else f"{DATA_NOT_INSTRUCTIONS} {READ_WHOLE}"
    return Recalled(results=results, note=note, degraded=degraded)


def nothing(query: str, least: float | None, nearest: float | None, degraded: list[str], *, narrowed: bool) -> Recalled:
    """That nothing was found, why, and what to do. `least` is the confidence asked for, None for the usual one;
    `nearest` the confidence of the best result, also where it was too little, None where there is none."""
    quoted = f"`{' '.join(query.split())[:QUOTED_CHARACTERS]}`"
    if nearest is None:
        within = " within these filters" * narrowed
        note = f"Nothing recorded matches {quoted}{within}. Use other words{' or fewer filters' * narrowed}."
    elif least is None:
        note = (
            f"Nothing recorded answers {quoted}: the nearest is {percent(nearest)} sure to be an answer. "
            "Use other words, or `min_confidence` 0 to see the nearest all the same."
        )
    else:
        note = (
            f"Nothing recorded is {percent(least)} sure to answer {quoted}: the nearest is {percent(nearest)} sure. "
            "Use other words, or a lower `min_confidence`."
        )
    return Recalled(results=[], note=note, degraded=degraded)


def percent(confidence: float) -> str:
    """A probability, never rounded to certainty."""
    return f"{min(99, round(confidence * 100))}%"


def recalled_text(recalled: Recalled, shown: int = SHOWN_CHARACTERS) -> str:
    """The results as a numbered list, marked as data, after a line on what they may lack; `shown` characters of each
    whole one."""
    notes = [f"Note: {lack}." for lack in recalled.degraded]
    if not recalled.results:
        return "\n".join([*notes, recalled.note])
    lines = [line for number, one in enumerate(recalled.results, 1) for line in _entry(number, one, shown)]
    told = recalled.note.removeprefix(DATA_NOT_INSTRUCTIONS).strip()
    return "\n".join([*notes, *marked("mnemolog-recall", lines), *([told] if told else [])])


def document_text(one: RecalledDocument) -> str:
    """A whole document, marked as data."""
    lines = [f"# {_heading(one)}", ", ".join(_facts(one)), "", *_body(one)]
    return "\n".join(marked("mnemolog-document", lines))


def _entry(number: int, one: RecalledDocument, shown: int) -> Iterator[str]:
    yield f"{number}. {_heading(one)} ({', '.join(_facts(one))})"
    yield from (f"   {line}" for line in shown_of("\n".join(_body(one)), shown).splitlines())


def _body(one: RecalledDocument) -> list[str]:
    return [*(one.snippet or one.content).splitlines(), *detail_lines(one.details), *detail_lines(one.metadata)]


def _heading(one: RecalledDocument) -> str:
    """The title, unless it is only how the content begins."""
    title = " ".join(one.title.split())
    return one.kind.capitalize() if not title or " ".join(one.content.split()).startswith(title) else title


def _facts(one: RecalledDocument) -> Iterator[str]:
    yield f"{one.occurred_at:%Y-%m-%d}"
    yield f"{one.kind} by {one.agent_id}" if one.agent_id else one.kind
    if one.session_id:
        yield f"session {one.session_id}"
    if one.project:
        yield f"project {one.project}"
    if one.confidence is not UNSET:
        yield f"{percent(one.confidence)} sure"
    if one.confirmed:
        yield f"confirmed {one.confirmed}x"
    if one.derived_from:
        yield f"made of {len(one.derived_from)} documents"
    if one.repeats:
        yield f"{len(one.repeats)} more say the same"
    yield one.id


def detail_lines(details: Mapping[str, Any]) -> Iterator[str]:
    """What else a document says, a name and its value a line; a value of several lines below its name."""
    for name, value in details.items():
        match value:
            case dict():
                yield from detail_lines(value)  # pyright: ignore[reportUnknownArgumentType]
            case str():
                yield from _named(name, value.splitlines())
            case list() | tuple() if all(isinstance(one, str) for one in value):  # pyright: ignore[reportUnknownVariableType]
                yield f"{name}: {', '.join(value)}"  # pyright: ignore[reportUnknownArgumentType]
            case _:
                yield f"{name}: {msgspec.json.encode(value).decode()}"


def _named(name: str, lines: Sequence[str]) -> Iterator[str]:
    yield f"{name}: {lines[0]}" if len(lines) == 1 else f"{name}:"
    if len(lines) > 1:
        yield from (f"  {line}" for line in lines)


def shown_of(text: str, most: int) -> str:
    """A text, or its beginning and how much more there is."""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}\n[{left:,} more characters in the structured result]"
