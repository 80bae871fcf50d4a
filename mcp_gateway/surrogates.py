r"""Half surrogate pairs (`"\ud83c"`, a cut emoji as JavaScript writes it) are legal JSON and no text.

The SDK's parsers refuse them, and over stdio such a request is never answered. So both doors repair messages first.
"""

import json
import re
from typing import Any

from ingest.secrets.scrub import repair_text

_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")


def repaired_json(message: bytes) -> bytes:
    """The message with half pairs replaced; the same object when there are none, or when it is not JSON at all."""
    if not _ESCAPED.search(message):
        return message
    try:
        return json.dumps(_repaired(json.loads(message)), ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return message  # the parser behind says what is wrong with it


def _repaired(value: Any) -> Any:
    if isinstance(value, str):
        return repair_text(value)
    if isinstance(value, list):
        return [_repaired(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {_repaired(key): _repaired(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value
