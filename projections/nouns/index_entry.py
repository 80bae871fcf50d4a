"""The index's entry for a document, and its searchable text."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from ingest.platform.clock import to_ms
from ingest.secrets.scrub import without_marks
from projections.kernel.module import native
from projections.text.cues import ASKS, FIRST_PERSON, NUMBER, NUMBERS, PROMPT, SELF, TELLS_TIME, TIME_STEMS, traits
from projections.text.dates import ANCHORS, HINTS, resolved_terms, times_in
from projections.text.payloads import named
from projections.text.terms import (
    STOP_WORDS,
    compiled_terms,
    date_terms,
    leading_stop_words,
    single_characters,
    word_terms,
)

HIDDEN_MS = 1
"""`retired_ms` of a document in quarantine: it was in use at no time."""
MAX_DATA_CHARS = 100_000
"""Of a hook payload; a tool's output beyond that is bulk, not something to find."""


class IndexEntry(Struct, frozen=True, kw_only=True, array_like=True):
    """What an index replica needs to know of a document. `terms` are stems, joined by spaces; times in ms.

    `retired_ms` and `expires_ms` are when it stopped, or stops, being found, 0 for never; `expires_ms` may be to come.
    `types` is how the document is classed: a memory's type and purpose, an observation's kind, a lesson's severity
    (`info` if it has none), `summary`.
    `files` and `concepts` are what the graph links it to. `renewed_ms` is when a lesson was last said, or a memory last
    judged: `confidence` is as of then. `visibility` is a memory's; `audience` is who may read it.
    """

    id: str
    kind: str
    terms: str
    episode: str = ""
    tenant: str
    project: str
    session_id: str = ""
    agent_id: str
    user_id: str
    tags: list[str] = []
    occurred_ms: int
    recorded_ms: int
    retired_ms: int = 0
    expires_ms: int = 0
    importance: float = 5.0
    confidence: float = 1.0
    audience: list[str] = []
    types: list[str] = []
    files: list[str] = []
    concepts: list[str] = []
    renewed_ms: int = 0
    visibility: str = ""
    trust: str = ""


def entry_for(document: Any, kind: str, terms: str, **fields: Any) -> IndexEntry:
    """The index entry of a document with the fields of `rows.origin`; `fields` are what only its type has."""
    return IndexEntry(
        id=document.id,
        kind=kind,
        terms=terms,
        tenant=document.tenant,
        project=document.project,
        session_id=document.session_id,
        agent_id=document.agent_id,
        user_id=document.user_id,
        occurred_ms=to_ms(document.occurred_at),
        recorded_ms=to_ms(document.recorded_at),
        files=list(document.files),
        **({"trust": document.trust} | fields),
    )


def index_terms(text: str, when: datetime, *, stated: bool = False, also: Sequence[str] = ()) -> str:
    """The terms of a searchable text, its `single_characters` unless it is a prompt, the terms of the dates it names,
    its traits, and the terms of the date it is about.

    `also` are traits that the text does not tell. What has some is no statement: its first stop words are left out.

    What is `stated`, as a memory is, answers questions in the first person however it is worded.
    """
    text = without_marks(text)
    compiled = compiled_index.read(text, not also)
    joined, features, times = compiled or read_in_python(text, not also)
    if stated and FIRST_PERSON not in features:
        features = [FIRST_PERSON, *features]
    dates = resolved_terms(times, when) if times else ()
    characters = [] if PROMPT in also else single_characters(text)
    return " ".join([*filter(None, [joined]), *characters, *dates, *features, *also, *date_terms(when)])


def read_in_python(text: str, with_stop_words: bool) -> tuple[str, list[str], list[str]]:
    """The terms of a text, its traits, and `times_in` it: the specification of the compiled function."""
    stems = word_terms(text)
    features = traits(text, stems)
    if with_stop_words and not STOP_WORDS.intersection(stems[:1]):  # a text of nothing but stop words has kept them
        stems += leading_stop_words(text)
    return " ".join(stems), features, times_in(text)


_lists = (STOP_WORDS, TIME_STEMS, NUMBERS, SELF, ANCHORS, HINTS, (FIRST_PERSON, TELLS_TIME, ASKS, NUMBER))
compiled_index = native.IndexTerms(compiled_terms, *map(list, _lists))


def searchable(parts: Iterable[str]) -> str:
    """The text of a document that search sees, of its parts; data URLs in it are replaced by their names."""
    return named("\n".join([part for part in parts if part]))


def texts_in(data: dict[str, Any]) -> list[str]:
    """The strings in a JSON value, in order, up to MAX_DATA_CHARS altogether."""
    return native.texts_in(data, MAX_DATA_CHARS)
