"""Where a server may listen: without a secret and without any key, on loopback only."""

from api.access.registry import Registry
from api.http.listening import LOOPBACK
from ingest.errors import InvalidSetting
from ingest.platform.connections import connect, once_reachable
from ingest.platform.settings import Settings


def check_binding(settings: Settings, *, keys: bool) -> None:
    """Raise InvalidSetting for a server that anybody on its network could use."""
    if settings.secret or keys or settings.host in LOOPBACK:
        return
    raise InvalidSetting(
        f"MNEMOLOG_HOST={settings.host} would let everybody in who can reach this machine: there is no API key. Set "
        "MNEMOLOG_SECRET, or make a key with `mnemolog keys create NAME --role operator` (with REDIS_URL set, or while "
        "the server runs on 127.0.0.1)"
    )


async def check_before_start(settings: Settings) -> str:
    """What a starting server says of who gets in; empty when it asks for a key. Raises InvalidSetting."""
    if settings.secret or settings.redis_url is None:
        return ""
    redis = connect(settings.redis_url, connections=2)
    try:
        keys = await once_reachable(redis, "to see whether there are keys", Registry(redis).version) > 0
    finally:
        await redis.aclose()
    check_binding(settings, keys=keys)
    return "" if keys else "open to this machine only: no keys"
