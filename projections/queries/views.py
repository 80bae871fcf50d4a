"""Documents as readers get them: stable names, times as datetimes, nothing internal.

The view of a noun is a struct in that noun's file. It is what the native API answers and what its OpenAPI document
describes; `view` turns a document into a mapping with the struct's fields.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar, get_args

from msgspec import UNSET, Struct, UnsetType, defstruct
from msgspec.structs import fields

from ingest.platform.clock import from_ms
from projections.nouns.document import Document
from projections.queries.documents import DocumentPage

T = TypeVar("T")
S = TypeVar("S", bound=type[Struct])
Record: TypeAlias = dict[str, Any]
"""A document as a reader gets it."""
INTERNAL = frozenset({"tenant", "session", "separate_parent", "revised_by", "stated_until", "call_headline", "writer"})
"""What of a document no reader gets."""
VIEWS: dict[str, type[Struct]] = {}
"""The view of each kind of document; the modules of this package add theirs when they are imported."""
_GETTERS: dict[type, Mapping[str, Callable[[Any], Any]]] = {}


class Items(Struct, Generic[T], frozen=True):
    """All there is."""

    items: list[T]


class Page(Items[T], Generic[T], frozen=True):
    """Part of a listing; `next` is the `cursor` of what follows, null at the end. `notes` say of an empty one that
    nothing at all is found of its project."""

    next: str | None
    notes: list[str] | UnsetType = UNSET


class SomeRetired(Page[T], Generic[T], frozen=True):
    """Part of a listing that lacks what was retired: `note` says so, and where that is.

    `retired_observations` are those of the session, since `retired_at`; a timeline does not count them.
    """

    retired_observations: int | UnsetType = UNSET
    retired_at: datetime | UnsetType = UNSET
    note: str | UnsetType = UNSET


def view_of(document: type, **sources: str | Callable[[Any], Any]) -> Callable[[S], S]:
    """Make a struct named `...View` the view of a type of documents.

    A field comes from its source (an attribute, or a function of the document), else from the attribute of its name;
    `..._at` from milliseconds in `..._ms`, where 0 is null if the field may be null. In the OpenAPI document the struct
    has the name of the document's type.
    """

    def register(cls: S) -> S:
        cls.__name__ = document.__name__
        VIEWS[document.__name__.lower()] = cls
        _GETTERS[document] = {field.name: _getter(document, field.name, field.type, sources) for field in fields(cls)}
        return cls

    return register


def public_view(document: type[Struct], **texts: Callable[[Any], str]) -> Any:
    """The view of documents whose readers get all fields but the internal ones, also those that have their default, and
    texts `made` of them."""
    selected = [(field.name, field.type) for field in fields(document) if field.name not in INTERNAL]
    shape = [*selected, *((name, str) for name in texts)]
    return view_of(document, **texts)(defstruct(document.__name__, shape, kw_only=True, module=__name__))


def view(document: Document) -> Any:
    """A document for a reader. Times stay datetimes: the JSON encoder writes them."""
    getters = _GETTERS.get(type(document))
    if getters is None:
        return {"id": document.id}
    return {name: get(document) for name, get in getters.items()}


def in_view(document: Document, names: Sequence[str]) -> list[Any]:
    """Some fields of a document's view; None for one that it has not."""
    getters = _GETTERS[type(document)]
    return [getters[name](document) if name in getters else None for name in names]


def views(documents: Iterable[Document]) -> Items[Any]:
    """Documents for a reader."""
    return Items([view(document) for document in documents])


def page_view(page: DocumentPage, matches_filter: Callable[[Any], bool] = lambda document: True) -> Page[Any]:
    """Those documents of a page that are wanted."""
    return Page([view(located.document) for located in page.documents if matches_filter(located.document)], page.next)


def _getter(
    document: type, name: str, kind: Any, sources: Mapping[str, str | Callable[[Any], Any]]
) -> Callable[[Any], Any]:
    source = sources.get(name, name)
    if callable(source):
        return source
    milliseconds = f"{name.removesuffix('_at')}_ms"
    if not name.endswith("_at") or milliseconds not in document.__annotations__:
        return attrgetter(source)
    nullable = type(None) in get_args(kind)

    def time(document: Any) -> datetime | None:
        ms: int = getattr(document, milliseconds)
        return None if nullable and not ms else from_ms(ms)

    return time
