"""Who can use a server by its settings: whose access tokens it accepts, and that not anyone on its network can."""

from functools import partial
from typing import TYPE_CHECKING

from ingest.errors import InvalidSetting
from ingest.log.keys import ACCESS_VERSION
from ingest.platform.addresses import LOOPBACK
from ingest.platform.connections import connected, retry_until_connected
from ingest.platform.settings import Settings

if TYPE_CHECKING:
    from api.access.oauth.rules import TokenRules


def token_rules(settings: Settings) -> "TokenRules | None":
    """The rules of a server that accepts access tokens; raises InvalidSetting for contradictory settings."""
    if not settings.oauth_issuer:
        if settings.oauth_resource or settings.oauth_audience or settings.oauth_jwks:
            raise InvalidSetting("other MNEMOLOG_OAUTH settings need MNEMOLOG_OAUTH_ISSUER: set it, or unset them")
        return None
    from api.access.oauth.rules import rules_of  # only with an issuer

    return rules_of(settings)


def check_binding(settings: Settings, *, keys: bool) -> None:
    """Raise InvalidSetting if anyone on the network could use the server."""
    if settings.secret or keys or settings.oauth_issuer or settings.host in LOOPBACK:
        return
    raise InvalidSetting(
        f"MNEMOLOG_HOST={settings.host} gives access to anyone who can reach this machine: there is no API key. Set "
        "MNEMOLOG_SECRET, or create a key with `mnemolog admin keys create NAME --role operator` (with REDIS_URL set, "
        "or while the server runs on 127.0.0.1)"
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
