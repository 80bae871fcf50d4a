"""What the viewer's WebSocket says of an observation: as it came, then compressed, under one id. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from api.dialects.agentmemory import records as dialect
from projections.documents.observations import Observation
from projections.queries.views import view

MAX_RAW_BYTES = 128 << 10
"""Of what came as it was; a whole screenshot is left out, and the frame says so."""
_RAW = ("raw", "toolName", "toolInput", "toolOutput", "userPrompt")
_BOTH = ("id", "sessionId", "timestamp", "hookType", "project", "agentId")


def frames(seen: Observation) -> tuple[str, str]:
    """The two frames of an observation, as JSON texts."""
    record = dialect.observation(view(seen))
    both = _only(record, _BOTH)
    raw = _frame("raw", {**both, **_only(record, _RAW)})
    if len(raw) > MAX_RAW_BYTES:
        raw = _frame("raw", {**both, "raw": {}, "truncated": True})
    compressed = {name: value for name, value in record.items() if name not in _RAW}
    return raw.decode(), _frame("compressed", compressed).decode()


def _frame(form: str, seen: Mapping[str, Any]) -> bytes:
    """Pages of both generations take it: older ones go by `type`, newer ones by `event_type`."""
    session = seen["sessionId"]
    return msgspec.json.encode(
        {
            "type": f"{form}_observation",
            "event_type": "observation",
            "sessionId": session,
            "data": {"type": form, "observation": seen, "sessionId": session},
        }
    )


def _only(record: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: record[name] for name in names if name in record}
