"""Refuses to start a server that anyone on its network could use."""

from functools import partial

from api.access.oauth.rules import token_rules
from ingest.errors import InvalidSetting
from ingest.log.keys import ACCESS_VERSION
from ingest.platform.addresses import LOOPBACK
from ingest.platform.connections import connected, retry_until_connected
from ingest.platform.settings import Settings


def check_binding(settings: Settings, *, keys: bool) -> None:
    """Raise InvalidSetting if anyone on the network could use the server."""
    if settings.secret or keys or settings.oauth_issuer or settings.host in LOOPBACK:
        return
    raise InvalidSetting(
        f"MNEMOLOG_HOST={settings.host} gives access to anyone who can reach this machine: there is no API key. Set "
        "MNEMOLOG_SECRET, or create a key with `mnemolog keys create NAME --role operator` (with REDIS_URL set, or "
        "while the server runs on 127.0.0.1)"
    )


async def check_before_start(settings: Settings) -> str:
    """The note about open access that a starting server prints; empty if it requires a key. Raises InvalidSetting."""
    if token_rules(settings) is not None or settings.secret or settings.redis_url is None:
        return ""
    async with connected(settings.redis_url) as redis:
        read_version = partial(redis.get, ACCESS_VERSION)  # grows with every change to a key
        keys = await retry_until_connected(redis, "to see whether there are keys", read_version) is not None
    check_binding(settings, keys=keys)
    return "" if keys else "no keys: open to this machine only"
