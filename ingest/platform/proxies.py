"""Through which proxy an HTTP client reaches a server: the one rule for all clients of these packages."""

import logging
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ingest.platform.web_url import is_loopback

logger = logging.getLogger(__name__)


def proxy_options(url: str) -> dict[str, Any]:
    """Keyword arguments for an httpx (or httpx2) client of the server at `url`.

    A server on this machine is reached directly: no proxy can reach it. For others the environment decides (HTTP_PROXY,
    HTTPS_PROXY, ALL_PROXY, NO_PROXY). httpx cannot be constructed while one of these names a kind of proxy that it does
    not support, so such a proxy is left out, with a warning, and the next one counts.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host):
        return {"trust_env": False}
    proxies = {scheme: proxy for scheme, proxy in getproxies().items() if scheme in ("http", "https", "all")}
    usable = {scheme: proxy for scheme, proxy in proxies.items() if _is_supported(proxy)}
    if usable == proxies:
        return {"trust_env": True}
    for name in sorted(proxies.keys() - usable.keys()):  # without the value: it may hold a password
        logger.warning("%s_PROXY is ignored: it is not an HTTP proxy (for SOCKS, install httpx[socks])", name.upper())
    from httpx import create_ssl_context  # with the certificates that SSL_CERT_FILE names

    proxy = None if proxy_bypass(host) else usable.get(parts.scheme) or usable.get("all")
    return {"trust_env": False, "proxy": proxy, "verify": create_ssl_context()}


def _is_supported(proxy: str) -> bool:
    scheme = proxy.partition("://")[0].lower() if "://" in proxy else "http"
    return scheme in ("http", "https") or (scheme in ("socks5", "socks5h") and find_spec("socksio") is not None)
