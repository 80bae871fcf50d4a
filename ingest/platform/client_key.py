"""The key that a user's commands, hooks and MCP bridges send: MNEMOLOG_SECRET, else the one stored for the server.

A stored key is a file below XDG_CONFIG_HOME that only its owner can read, one for each address, so that no key goes to
another server than the one it was stored for. `api/agents/recording.py` finds it by the same rule.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from ingest.errors import InvalidSetting
from ingest.platform.files import write_whole
from ingest.platform.web_url import is_loopback

_PORTS = {"http": 80, "https": 443}


def client_key(url: str, environ: Mapping[str, str]) -> str | None:
    """What is sent to the server at a URL; None for nothing. Raises InvalidSetting for a file that others can read."""
    if secret := environ.get("MNEMOLOG_SECRET"):
        return secret
    if (secret := environ.get("AGENTMEMORY_SECRET")) and is_loopback(urlsplit(url).hostname or ""):
        return secret  # what a server on this machine was started with; elsewhere it may be another system's
    if (path := key_file(url, environ)) is None:
        return None
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read().decode().strip()
    except (OSError, ValueError):
        return None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise InvalidSetting(f"{path} holds a key and others can read it: chmod 600 it, and rotate the key")
    return key or None


def key_file(url: str, environ: Mapping[str, str]) -> Path | None:
    """Where the key for the server at a URL is stored; None for what is no address. No name is looked up."""
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
    """Store a key for the server at a URL, in the place of another; returns the file.

    Raises InvalidSetting for what is no address, and where the file cannot be written.
    """
    path = key_file(url, environ)
    if path is None:
        raise InvalidSetting(f"{url!r} is not an http:// or https:// address, so no key is stored for it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(path, f"{key}\n".encode())
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be written: {error.strerror or error}") from None
    return path
