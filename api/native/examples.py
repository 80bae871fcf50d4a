"""Examples for the OpenAPI document, by the name of the shape that is sent or answered: `examples.json`.

A test checks each against its schema.
"""

import json
from pathlib import Path
from typing import Any

_EXAMPLES: dict[str, Any] = json.loads(Path(__file__).with_name("examples.json").read_text("utf-8"))
SENT: dict[str, Any] = _EXAMPLES["sent"]
ANSWERED: dict[str, Any] = _EXAMPLES["answered"]
EVENT: dict[str, Any] = _EXAMPLES["event"]
