"""`python -m mcp_gateway`: bridge to the server that MNEMOLOG_URL and MNEMOLOG_KEY name. A composition root."""

import asyncio
import logging
import os
import sys

from api.dialects.profiles import PROFILES
from ingest.platform.addresses import client_key
from ingest.platform.settings import InvalidSetting, from_environment
from ingest.secrets.redaction import RedactingFormatter, secrets_of
from mcp_gateway.profiles import UnknownProfile
from mcp_gateway.stdio import bridge


def main() -> None:
    """Serve until standard input ends; errors go to stderr, with exit code 1."""
    profile = os.environ.get("MNEMOLOG_MCP_PROFILE", "")
    try:
        settings = from_environment(os.environ)
        key = client_key(settings.url, os.environ)
        PROFILES.chosen(profile)
    except (InvalidSetting, UnknownProfile) as error:
        sys.exit(str(error))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter("mnemolog: %(message)s", secrets_of(settings)))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    try:
        asyncio.run(bridge(settings.url, key, PROFILES, profile))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
