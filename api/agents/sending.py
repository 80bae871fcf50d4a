"""The way of a hook to a server with a name or TLS: reads directly, and events by a detached process.

A hook delivers to a server on this machine itself, and that server fetches what was spooled. Another server can do
neither: looking up its name and its certificate takes longer than a hook may, and it cannot read this machine's files.
So hooks spool every event for it, and one process at a time sends them, in order. It ends when the folder is empty, or
when the server was unavailable for long; the next event starts another one.

It uses only the standard library, and is loaded only for such a server.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from subprocess import DEVNULL
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from api.agents import recording
    from api.agents.payloads import HOSTS
    from api.agents.spools import FAILURE, SENDING, locked, send_command, spooled
else:  # as a hook, which has only this folder on its path
    import recording
    from payloads import HOSTS
    from spools import FAILURE, SENDING, locked, send_command, spooled

if TYPE_CHECKING:
    from typing import Any

READ_S, WRITE_S = 2.0, 30.0
BATCH_FILES, BATCH_BYTES = 100, 4 << 20
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
PATIENCE_S = 900.0
"""After so long without an answer the process ends."""


def request(
    url: str, method: str, path: str, body: bytes, headers: dict[str, str], seconds: float
) -> tuple[int, bytes]:
    """Status and body of the answer; raises Undeliverable without one."""
    outgoing = Request(url.rstrip("/") + path, body or None, headers, method=method)
    try:
        with urlopen(outgoing, timeout=seconds) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        return error.code, error.read()
    except (URLError, OSError, ValueError) as error:
        raise recording.Undeliverable(f"{url}: {getattr(error, 'reason', None) or error}") from None


def start(url: str, spool: str) -> None:
    """Start the process that sends, unless one is running."""
    lock = locked(spool, SENDING)
    if lock is None:
        return
    os.ftruncate(lock, 0)
    os.write(lock, url.encode())  # for `mnemolog doctor`
    os.close(lock)
    # in a session of its own: a host may end the hook's process group
    subprocess.Popen(send_command(url, spool), stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True)


def send(url: str, spool: str, key: str) -> None:
    """Send what is spooled, in order, until nothing is left or the server was unavailable for `PATIENCE_S`."""
    # a hook that spooled while the lock was still held started no process: look again after it is free
    while spooled(spool) and _send_all(url, spool, key):
        pass


def _send_all(url: str, spool: str, key: str) -> bool:
    """Whether all was sent; not if another process sends, or the server was unavailable for long."""
    lock = locked(spool, SENDING)
    if lock is None:
        return False
    try:
        pause_s, answered = FIRST_PAUSE_S, time.monotonic()
        while names := spooled(spool):
            reason = _send_some(url, spool, names, key)
            if not reason:
                pause_s, answered = FIRST_PAUSE_S, time.monotonic()
                continue
            _note(spool, reason)
            if time.monotonic() - answered > PATIENCE_S:
                return False
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        _note(spool, "")
        return True
    finally:
        os.close(lock)


def _send_some(url: str, spool: str, names: list[str], key: str) -> str:
    """Send the oldest files in one request, and delete what the server stored; returns why nothing was sent, if so."""
    batch = _batch(spool, names)
    if not batch:
        return ""
    body = json.dumps([command for _, command in batch]).encode()
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    try:
        status, answer = request(url, "POST", "/v1/events", body, headers, WRITE_S)
    except recording.Undeliverable as error:
        return str(error)
    if status in recording.REFUSED and len(batch) > 1:  # one of them is at fault: alone, it says which
        return _send_some(url, spool, [batch[0][0]], key)
    if status in recording.REFUSED:
        _reject(spool, batch[0][0], answer.decode("utf-8", "replace"))
    elif 200 <= status < 300:
        _finish(spool, [name for name, _ in batch], answer)
    else:
        return f"{url} answers {status}: {answer[:200].decode('utf-8', 'replace')}"
    return ""


def _batch(spool: str, names: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """The oldest files that fit in one request, with their commands; files without one are put aside or deleted."""
    batch: list[tuple[str, dict[str, Any]]] = []
    size = 0
    for name in names[:BATCH_FILES]:
        body = _read(os.path.join(spool, name))
        size += len(body)
        if batch and size > BATCH_BYTES:
            break
        try:
            command = _command(body)
        except (ValueError, KeyError, TypeError) as error:
            _reject(spool, name, f"not readable: {error}")
            continue
        if command is None:
            os.unlink(os.path.join(spool, name))
        else:
            batch.append((name, command))
    return batch


def _finish(spool: str, names: list[str], answer: bytes) -> None:
    """Delete the files that the server stored, and put aside those that it refused."""
    rows: list[dict[str, Any]] = json.loads(answer).get("rejected") or []
    refused = {row["index"]: json.dumps(row) for row in rows}
    for number, name in enumerate(names):
        if number in refused:
            _reject(spool, name, refused[number])
        else:
            os.unlink(os.path.join(spool, name))


def _command(body: bytes) -> dict[str, Any] | None:
    """The command in a spool file, or from the payload in it."""
    value: dict[str, Any] = json.loads(body)
    if "hook" not in value:
        return value
    facts = value["hook"]
    return recording.command_of(HOSTS[facts.get("host", "claude-code")].event(value["payload"]), **facts)


def _reject(spool: str, name: str, reason: str) -> None:
    path = os.path.join(spool, name)
    recording.keep(os.path.join(spool, "rejected"), _read(path), f"{reason}\n".encode())
    os.unlink(path)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _note(spool: str, reason: str) -> None:
    """Keep why sending failed, for the next hook; with an empty reason, delete it."""
    path = os.path.join(spool, FAILURE)
    if reason:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(reason.encode("utf-8", "replace"))
    elif os.path.exists(path):
        os.unlink(path)
