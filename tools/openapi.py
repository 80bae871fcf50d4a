"""Prints the OpenAPI document of the native API, without a server: `python tools/openapi.py > openapi.json`.

The types of clients/typescript are made of it (`make types`).
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from api.http.openapi import document
from api.native.catalog import ABOUT, MODULES


def main() -> None:
    """Print it."""
    described = document(ABOUT, [one for module in MODULES for one in module.ENDPOINTS])
    print(json.dumps(described, indent=1))


if __name__ == "__main__":
    main()
