"""Addresses in settings and arguments: of web servers and of Redis; the proxy and the key to use for a server.

The key that a user's commands, hooks and MCP bridges send is MNEMOLOG_KEY, or MNEMOLOG_SECRET, or the one stored for
the server: a file below XDG_CONFIG_HOME that only its owner can read, one for each address, so that no key goes to
another server than the one it was stored for. `api/agents/recording.py` finds it by the same rule.
"""

import logging
import os
import re
import stat
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from ingest.errors import InvalidSetting
from ingest.platform.files import check_regular, write_whole

logger = logging.getLogger(__name__)

_NO_ADDRESS = "is not an http:// or https:// address"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    """Whether a host name is this machine's own."""
    if host in LOOPBACK or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_http(parts: SplitResult) -> bool:
    """Whether an address is http:// or https:// and names a host; raises ValueError for an invalid port."""
    return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0


def fault_of_url(url: str, *, secure: bool = True, query: bool = False) -> str:
    """What is wrong with an address, for people; empty when it can be used. `secure`: it must be https, or on this
    machine. `query`: it may have a query string."""
    try:
        parts = urlsplit(url)
        usable = is_http(parts)
    except ValueError:
        return _NO_ADDRESS
    if not usable or not re.fullmatch(r"[!-~]+", url):
        return _NO_ADDRESS
    if "@" in parts.netloc or "#" in url or ("?" in url and not query):
        return "contains a user, a fragment or a query, which is not allowed"
    if secure and parts.scheme != "https" and parts.hostname not in LOOPBACK:
        return "must be an https:// address: otherwise an attacker on the network could substitute keys"
    return ""


CLUSTER_SCHEMES = ("redis+cluster://", "rediss+cluster://")
FORMS = "redis://HOST:PORT, rediss://HOST:PORT, unix:///PATH or redis+cluster://HOST:PORT,HOST:PORT"


def is_cluster(url: str) -> bool:
    """Whether it names a Redis Cluster: `redis+cluster://host:port,host:port`."""
    return url.startswith(CLUSTER_SCHEMES)


def is_redis_url(url: str) -> bool:
    """Whether it names a server or a cluster, judged by its form."""
    try:
        parts = urlsplit(url)
        if is_cluster(url):
            return True  # its client says what is wrong with which node
        port_can_be = parts.port is None or parts.port > 0
    except ValueError:
        return False
    if parts.scheme == "unix":
        return bool(parts.path)
    return parts.scheme in ("redis", "rediss") and bool(parts.hostname) and port_can_be


def place_of(url: str) -> str:
    """Where the server is, without user and password, for people."""
    if url.startswith("unix://"):
        return urlsplit(url).path
    return url.partition("://")[2].rpartition("@")[2].partition("/")[0].partition("?")[0]


SEARCH_SCHEMES = ("redis-search", "rediss-search")


def search_engine_of(index: str, log: str | None) -> str | None:
    """The URL of the search engine that a setting of the index names: `redis-search` is the log's own server. None for
    the embedded index. Raises ValueError for what is neither, or has no server."""
    if index in ("", "embedded"):
        return None
    scheme, separator, rest = index.partition("://")
    if scheme not in SEARCH_SCHEMES or (not separator and scheme != SEARCH_SCHEMES[0]):
        raise ValueError("it is not one of embedded, redis-search, redis-search://HOST:PORT, rediss-search://HOST:PORT")
    url = f"{scheme.removesuffix('-search')}://{rest}" if separator else log or ""
    if not is_redis_url(url):
        raise ValueError("it names no server" if separator else "redis-search alone uses REDIS_URL: set it")
    if is_cluster(url):
        raise ValueError("a cluster is not supported as the search engine: name one server")
    return url


HTTP_PROXIES = ("http", "https")


def proxies_of(url: str, kinds: Collection[str] = HTTP_PROXIES) -> dict[str, str]:
    """The proxies of the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) to the server at `url`, by its scheme.

    None for a server on this machine, which no proxy can reach. Proxies that are not of these `kinds` are left out,
    with a warning.
    """
    if is_loopback(urlsplit(url).hostname or ""):
        return {}
    proxies = _all_proxies()
    usable = {
        scheme: proxy
        for scheme, proxy in proxies.items()
        if "://" not in proxy or proxy.partition("://")[0].lower() in kinds
    }
    for name in sorted(proxies.keys() - usable.keys()):  # without the value: it may hold a password
        advice = "for SOCKS, which the MCP bridge cannot use, install httpx[socks]"
        logger.warning("%s_PROXY is ignored: it is not an HTTP proxy (%s)", name.upper(), advice)
    return usable


def _all_proxies() -> dict[str, str]:
    return {scheme: proxy for scheme, proxy in getproxies().items() if scheme in ("http", "https", "all")}


def proxy_options(url: str) -> dict[str, Any]:
    """Keyword arguments for an httpx (or httpx2) client of the server at `url`: its proxy.

    NO_PROXY names servers without one. httpx refuses to start with a kind of proxy that it does not support.
    """
    parts = urlsplit(url)
    if is_loopback(parts.hostname or ""):
        return {"trust_env": False}
    socks = ("socks5", "socks5h") if find_spec("socksio") is not None else ()
    usable = proxies_of(url, (*HTTP_PROXIES, *socks))
    if usable == _all_proxies():
        return {"trust_env": True}
    from httpx import create_ssl_context  # with the certificates that SSL_CERT_FILE names

    proxy = None if proxy_bypass(parts.hostname or "") else usable.get(parts.scheme) or usable.get("all")
    return {"trust_env": False, "proxy": proxy, "verify": create_ssl_context()}


_PORTS = {"http": 80, "https": 443}
KEY_VARIABLES = ("MNEMOLOG_KEY", "MNEMOLOG_SECRET")
"""The variables for a client's key, in order of precedence; the second is also the server's own secret."""


def client_key(url: str, environ: Mapping[str, str]) -> str | None:
    """The key to send to the server at a URL, if any. Raises InvalidSetting for a key file that others can read."""
    if variable := next(filter(environ.get, KEY_VARIABLES), None):
        if not (key := environ[variable].strip()).isascii() or not key.isprintable():
            raise InvalidSetting(f"{variable} has characters that a key cannot have")
        return key
    if (secret := environ.get("AGENTMEMORY_SECRET")) and is_loopback(urlsplit(url).hostname or ""):
        return secret  # what a server on this machine was started with; elsewhere it may be another system's
    if (path := key_file(url, environ)) is None:
        return None
    try:
        check_regular(path)
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read().decode().strip()
    except (OSError, ValueError):
        return None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise InvalidSetting(f"{path} contains a key and other users can read it: chmod 600 it, and rotate the key")
    return key or None


def key_file(url: str, environ: Mapping[str, str]) -> Path | None:
    """Where the key for the server at a URL is stored; None for an invalid address. No name is looked up."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not host:
        return None
    home = Path(environ.get("HOME") or "~").expanduser()
    folder = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "mnemolog" / "keys"
    return folder / f"{'127.0.0.1' if host == 'localhost' else host}_{port}"


def store_key(key: str, url: str, environ: Mapping[str, str]) -> Path:
    """Store or replace the key for the server at a URL; returns the file. Raises InvalidSetting for an invalid address,
    and if the file cannot be written."""
    path = key_file(url, environ)
    if path is None:
        raise InvalidSetting(f"{url!r} is not an http:// or https:// address, so no key is stored for it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(path, f"{key}\n".encode())
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be written: {error.strerror or error}") from None
    return path
