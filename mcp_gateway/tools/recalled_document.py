"""One result of the tools that read."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from ingest.kinds import SearchedKind


class RecalledDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One result, without empty fields, and without the project if the call named it."""

    id: str
    kind: SearchedKind
    title: str
    snippet: Annotated[str, Meta(description="The part that matches the query; absent if `content` is present.")] = ""
    content: Annotated[str, Meta(description="The full text, if requested.")] = ""
    details: Annotated[dict[str, Any], Meta(description="Other fields of a document read by id.")] = {}
    confidence: Annotated[float, Meta(description="0 to 1: probability that this is an answer.")] | UnsetType = UNSET
    score: Annotated[float, Meta(description="For full results; comparable within this answer.")] | UnsetType = UNSET
    occurred_at: Annotated[datetime, Meta(tz=True)]
    agent_id: str = ""
    session_id: str = ""
    project: str = ""
    derived_from: Annotated[list[str], Meta(description="Documents it was derived from.")] = []
    confirmed: Annotated[int, Meta(description="How often it was confirmed.")] = 0
    repeats: Annotated[list[str], Meta(description="Near-duplicates, and the summary that quotes it.")] = []
    trust: str = ""
    changed_since: list[str] = []
    superseded_by: Annotated[str, Meta(description="Newer, and probably replaces it.")] = ""
    valid_until: datetime | UnsetType = UNSET
    metadata: dict[str, str] = {}
