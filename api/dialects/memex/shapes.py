"""What memex's endpoints are asked and what they answer. Checked by pydantic, as memex checks it; unknown keys pass."""

from enum import StrEnum

from msgspec import Struct
from pydantic import BaseModel, Field

from api.dialects.memex.records import Shown

VERSION = "0.1.0"


class MemoryType(StrEnum):
    """The types there are."""

    episodic = "episodic"
    semantic = "semantic"
    procedural = "procedural"


class MemoryCreate(BaseModel):
    """A memory to store."""

    agent_id: str = Field(min_length=1, max_length=128)
    user_id: str = Field(min_length=1, max_length=128)
    content: str = Field(min_length=1, max_length=8000)
    importance: float = Field(default=1.0, ge=0.0, le=2.0)
    memory_type: MemoryType = MemoryType.episodic


class MemorySearch(BaseModel):
    """What to look for; `alpha` weighs likeness (1) against recency (0)."""

    agent_id: str = Field(min_length=1, max_length=128)
    user_id: str = Field(min_length=1, max_length=128)
    query: str = Field(min_length=1, max_length=2000)
    top_k: int = Field(default=10, ge=1, le=50)
    alpha: float = Field(default=0.7, ge=0.0, le=1.0)
    memory_type: MemoryType | None = None


class OfAgent(BaseModel):
    """Whose memory."""

    agent_id: str


class OfPair(BaseModel):
    """Whose memories, of whom."""

    agent_id: str
    user_id: str


class Found(Struct, frozen=True):
    """What a search found, best first; `total` counts what is here."""

    results: list[Shown]
    query: str
    total: int


class Counted(Struct, frozen=True):
    """How much an agent remembers of a user."""

    agent_id: str
    user_id: str
    count: int


class Health(Struct, frozen=True):
    """How the server is: `ok`, or `degraded` and why."""

    status: str
    db: str
    version: str = VERSION


class Info(Struct, frozen=True):
    """What this is."""

    service: str = "memex"
    version: str = VERSION
    docs: str = "/docs"
