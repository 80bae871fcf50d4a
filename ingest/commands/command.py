"""What every command has, and the types of the fields of commands. An unknown key is an error that names it."""

from datetime import datetime
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

MAX_NAME_CHARS = 512
Name = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
EventName = Annotated[str, Meta(max_length=128)]
Names = Annotated[list[Annotated[str, Meta(max_length=512)]], Meta(max_length=200)]
Label = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]{0,63}$")]
Title = Annotated[str, Meta(max_length=512)]
Importance = Annotated[float, Meta(ge=0, le=10)]
Confidence = Annotated[float, Meta(ge=0, le=1)]
SlotSize = Annotated[int, Meta(ge=1, le=20_000)]
_EXACT = Meta(ge=-(2**53), le=2**53)
Priority: TypeAlias = Annotated[int, _EXACT] | Annotated[float, _EXACT]
"""As far as a number is exact for every reader of JSON."""
Status = Annotated[str, Meta(max_length=64)]


class Command(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What every command may carry. `event_id` makes a retry harmless; without it every call is a new event."""

    event_id: EventName = ""
    project: Name = ""
    agent_id: Name = ""
    session_id: Name = ""
    user_id: Name = ""
    occurred_at: datetime | None = None
    trace: Annotated[str, Meta(max_length=256)] = ""
    metadata: dict[str, str] = {}
