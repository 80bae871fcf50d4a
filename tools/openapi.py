"""Prints the OpenAPI document of the native API, without a server: `python -m tools.openapi > openapi.json`.

The types of both clients are made of it (`make types`).
"""

import json
from typing import Any

from api.http.openapi import document
from api.native.catalog import ABOUT, MODULES


def native() -> dict[str, Any]:
    """The document."""
    return document(ABOUT, [one for module in MODULES for one in module.ENDPOINTS])


if __name__ == "__main__":
    print(json.dumps(native(), indent=1))
