"""The folders where hooks spool events: the events that wait in one, the start of the server that fetches them, and the
marks of which session was shown which lesson, memory or message.

Hooks load this file, so it imports only modules of the standard library that load in a few milliseconds.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from api.agents.checkouts import complain, content, file_key, listing
else:  # as a hook, which has only this folder on its path
    from checkouts import complain, content, file_key, listing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

STUCK_S = 60.0
"""Until then, the server has probably fetched an event."""
START_EVERY_S = 30.0
"""Of all hooks together: a server that ends at once is not started more often."""
OUTPUT = ".up.log"
"""The output of the server that a hook started. It is locked while that server runs, and while a hook starts it."""
SENDING, FAILURE = ".sending", ".not-sent"
"""For another machine's server: the lock of the process that sends, with the URL; why the last attempt failed."""
CLAIMS, CLAIM_DAYS = 5_000, 30
"""So many marks stay, an empty file each, and for so long."""


def spooled(folder: str) -> list[str]:
    """The names of the files with events in a spool folder, oldest first."""
    return [name for name in listing(folder) if name.endswith(".json") and not name.startswith(".")]


def waiting(folder: str) -> tuple[str, bool]:
    """How many events wait in a spool folder and since when, as text, and whether that is too long; empty for none."""
    names, now = spooled(folder), time.time()
    if not names:
        return "", False
    stamp = names[0][:13]
    oldest = int(stamp) / 1000 if stamp.isdigit() else now
    count = "1 event waits" if len(names) == 1 else f"{len(names)} events wait"
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(oldest))
    return f"{count} in the spool {folder} since {since}", now - oldest > STUCK_S


def start_server(host: str, port: int, spool: str, environ: Mapping[str, str]) -> str:
    """Start `mnemolog up` as a detached process, unless a hook just did; returns the path of its output."""
    path, output = os.path.join(spool, OUTPUT), locked(spool, OUTPUT)
    if output is None:
        return path
    status = os.fstat(output)
    if not status.st_size or time.time() - status.st_mtime > START_EVERY_S:
        from subprocess import DEVNULL, Popen  # takes longer to load than the rest of the hook

        os.ftruncate(output, 0)
        command = [sys.executable, "-P", "-m", "mnemolog", "up"]
        # a REDIS_URL here is for the user's project: `mnemolog install --start` refuses to work with one
        env = {"MNEMOLOG_HOST": host, **environ, "MNEMOLOG_PORT": str(port), "REDIS_URL": ""}
        # in a session and a folder of its own: a host may end the hook's process group, and delete its folder
        folder = os.path.expanduser("~")
        process = Popen(
            command, stdin=DEVNULL, stdout=output, stderr=output, env=env, cwd=folder, start_new_session=True
        )
        os.write(output, b"started by a hook as process %d\n" % process.pid)
    os.close(output)
    return path


def send_command(url: str, spool: str) -> list[str]:
    """The command that sends the events of a spool folder to another machine's server."""
    hook = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook.py")
    return [sys.executable, "-I", "-S", hook, "--send", url, spool]


def locked(folder: str, name: str) -> int | None:
    """The open lock file in a folder; None while another process holds it."""
    os.makedirs(folder, 0o700, exist_ok=True)
    lock = os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.name == "posix":
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            msvcrt.locking(lock, msvcrt.LK_NBLCK, 1)  # pyright: ignore
    except OSError:
        os.close(lock)
        return None
    return lock


def claim(folder: str, event: Mapping[str, Any], document: str) -> bool:
    """Whether a lesson or memory is new to an agent of a session."""
    path = _claim_of(folder, event, document)
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        # exclusively: of several concurrent calls, only one shows it
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:  # otherwise it would be shown at every call
        if not os.path.exists(path):
            complain(f"{folder}: {error}")
        return False
    return True


def is_claimed(folder: str, event: Mapping[str, Any], document: str) -> bool:
    """Whether an agent of a session was shown a lesson or memory."""
    return os.path.exists(_claim_of(folder, event, document))


def _claim_of(folder: str, event: Mapping[str, Any], document: str) -> str:
    agent_and_document = str(event.get("agent_id") or "") + " " + document
    return os.path.join(folder, f"{file_key(str(event.get('session_id') or ''))}-{file_key(agent_and_document)}")


def keep_feedback(folder: str, event: Mapping[str, Any], call: str, feedback: bytes) -> None:
    """Store the feedback to send if a tool call succeeds. `call`: the tool's input."""
    try:
        with open(_feedback_of(folder, event, call), "wb") as file:
            file.write(feedback)
    except OSError as error:
        complain(f"{folder}: {error}")


def take_feedback(folder: str, event: Mapping[str, Any], call: str) -> str:
    """Return and delete the feedback stored for a call; empty without any, or if another hook took it."""
    path = _feedback_of(folder, event, call)
    feedback = content(path)
    try:
        if feedback:
            os.unlink(path)
    except OSError:
        return ""
    return feedback


def _feedback_of(folder: str, event: Mapping[str, Any], call: str) -> str:
    return _claim_of(folder, event, f"feedback {event.get('tool_name')} {call}")


def forget_claims(folder: str, event: Mapping[str, Any]) -> None:
    """Show lessons and memories again when a session's context starts over; deletes old marks."""
    names = listing(folder)
    own = file_key(str(event.get("session_id") or "")) + "-"
    oldest = time.time() - CLAIM_DAYS * 86_400
    for name in names:
        path = os.path.join(folder, name)
        try:
            if name.startswith(own) or len(names) > CLAIMS or os.stat(path).st_mtime < oldest:
                os.unlink(path)
        except OSError:
            pass  # another hook deleted it
