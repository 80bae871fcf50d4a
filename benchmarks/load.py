"""What fleets write, made up: the same seed gives the same events."""

import random
from typing import Any

SEED = 20261121
WORDS = [
    "deploy",
    "checkout",
    "service",
    "timeout",
    "redis",
    "queue",
    "worker",
    "retry",
    "payment",
    "ledger",
    "index",
    "replica",
    "token",
    "session",
    "schema",
    "migration",
    "rollout",
    "canary",
    "metric",
    "alert",
    "owner",
    "branch",
    "commit",
    "review",
    "failing",
    "test",
    "fixture",
    "latency",
    "budget",
    "cache",
]


def event(run: str, number: int, dice: random.Random) -> dict[str, object]:
    """An observation of about 600 bytes of JSON, every id new."""
    text = " ".join(dice.choices(WORDS, k=52))
    return {
        "type": "observe",
        "event_id": f"{run}-{number}",
        "project": f"bench-{run}-{number % 7}",
        "session_id": f"session-{number % 97}",
        "agent_id": f"agent-{number % 41}",
        "kind": "task",
        "content": text,
        "occurred_at": "2026-01-31T12:00:00Z",
    }


def mixed(run: str, number: int, dice: random.Random) -> dict[str, Any]:
    """An event of a fleet: of twenty one memory, lesson, slot line and action each; the others are observations."""
    base = event(run, number, dice)
    who = {name: base[name] for name in ("event_id", "project", "agent_id")}
    text = " ".join(dice.choices(WORDS, k=20))
    match number % 20:
        case 3:
            return {"type": "remember", "content": f"{text} {number}", "tags": dice.sample(WORDS, 2), **who}
        case 8:
            return {"type": "lesson", "content": " ".join(dice.choices(WORDS[:12], k=3)), **who}
        case 13:
            return {"type": "slot", "label": dice.choice(WORDS[:8]), "content": text[:60], **who}
        case 18:
            return {"type": "action", "title": f"{text[:80]} {number}", "priority": number % 5, **who}
        case _:
            return base
