"""Edges between things that are remembered."""

from typing import ClassVar

from msgspec import Struct


class RelationLinked(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Two documents were related."""

    TYPE: ClassVar[str] = "relation.linked"
    VERSION: ClassVar[int] = 1

    source: str
    target: str
    relation: str
    confidence: float | None = None
    derived_from: list[str] = []


class RelationUnlinked(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A relation was withdrawn."""

    TYPE: ClassVar[str] = "relation.unlinked"
    VERSION: ClassVar[int] = 1

    source: str
    target: str
    relation: str
