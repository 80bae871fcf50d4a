"""What agents saw and did."""

from typing import Any, ClassVar

from msgspec import Struct


class ObservationRecorded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent reported something: text in `content`, structure (a tool call, a hook payload) in `data`, or both."""

    TYPE: ClassVar[str] = "observation.recorded"
    VERSION: ClassVar[int] = 1

    kind: str = ""
    content: str = ""
    data: dict[str, Any] = {}


class ObservationCompressed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model compressed an observation. (The synthetic compression is derived and never an event.)"""

    TYPE: ClassVar[str] = "observation.compressed"
    VERSION: ClassVar[int] = 1

    observation: str
    title: str
    narrative: str
    facts: list[str] = []
    concepts: list[str] = []
    files: list[str] = []
    importance: int = 5
    model: str
    prompt_version: str
