"""Through which proxy the clients reach a server."""

import logging
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

logger = logging.getLogger(__name__)


def proxy_options(url: str) -> dict[str, Any]:
    """No proxy for a server on this machine; for others what the environment says, without what httpx cannot use.

    The same rule as `ingest.platform.addresses`, which this distribution does not import.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if _is_loopback(host):
        return {"trust_env": False}
    proxies = {scheme: proxy for scheme, proxy in getproxies().items() if scheme in ("http", "https", "all")}
    usable = {scheme: proxy for scheme, proxy in proxies.items() if _is_supported(proxy)}
    if usable == proxies:
        return {"trust_env": True}
    for name in sorted(proxies.keys() - usable.keys()):  # without the value: it may hold a password
        logger.warning("%s_PROXY is ignored: it is not an HTTP proxy (for SOCKS, install httpx[socks])", name.upper())
    proxy = None if proxy_bypass(host) else usable.get(parts.scheme) or usable.get("all")
    return {"trust_env": False, "proxy": proxy, "verify": httpx.create_ssl_context()}


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_supported(proxy: str) -> bool:
    scheme = proxy.partition("://")[0].lower() if "://" in proxy else "http"
    return scheme in ("http", "https") or (scheme in ("socks5", "socks5h") and find_spec("socksio") is not None)
