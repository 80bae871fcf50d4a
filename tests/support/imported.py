"""What an import of rows ends in: the documents, folded from the events that the rows become."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from factories import TENANT, place
from folding import folded

from api.importing.mapping import ImportRow, Mapped, events_of
from ingest.events.envelope import Event, Recorded

D = TypeVar("D")


def events(system: str, mapped: Callable[[ImportRow], Mapped], rows: Iterable[ImportRow]) -> list[Event]:
    """The events that rows become, in order."""
    return [event for row in rows for event in events_of(mapped(row), system, TENANT)]


def documents(expected: Sequence[Event], kind: type[D]) -> list[D]:
    """The documents of one kind that the events end in."""
    store = folded([Recorded(place(number), *event) for number, event in enumerate(expected, 1)])
    return [document for document in store.documents.values() if isinstance(document, kind)]
