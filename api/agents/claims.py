"""Marks of which session was shown which lesson, memory or message: an empty file each.

Hooks load this file, so it imports only modules of the standard library that load in a few milliseconds.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from api.agents.checkouts import complain, file_key, listing
else:  # as a hook, which has only this folder on its path
    from checkouts import complain, file_key, listing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CLAIMS, CLAIM_DAYS = 5_000, 30
"""So many files, and so old, stay."""


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
