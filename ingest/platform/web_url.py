"""Addresses of web servers that settings, and documents of an issuer, name."""

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

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


def fault_of_url(url: str, *, secure: bool = True, query: bool = False) -> str:
    """What is wrong with an address, for people; empty when it can be used.

    `secure`: it must be https, or on this machine. `query`: it may have a query string.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return _NO_ADDRESS
    if not usable or not re.fullmatch(r"[!-~]+", url):
        return _NO_ADDRESS
    if "@" in parts.netloc or "#" in url or ("?" in url and not query):
        return "has a user, a fragment or a query, which it may not have"
    if secure and parts.scheme != "https" and parts.hostname not in LOOPBACK:
        return "must be an https:// address: who stands in between could put keys of its own there"
    return ""
