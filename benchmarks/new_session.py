"""What is a new session told? One fixed scenario, over HTTP.

    python -m benchmarks.new_session [--url http://127.0.0.1:3111] [--tokens 800] [--json]

Three sessions of a project in the shape of Claude Code's hooks, eight memories, four lessons, a slot and two actions,
written as `new_session.json` says. Then the context of a new session is asked for, without a query, and printed.
Counted: how many of the memories, of the last session's outcome, decisions and open ends, of the lessons, the slot and
the actions it tells, by a phrase of each.
"""

import argparse
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.driving import Pool, settled
from benchmarks.outcomes import summarised

SCENARIO = Path(__file__).parent / "new_session.json"
STARTED = datetime(2026, 3, 2, 9, tzinfo=UTC)


def events(scenario: dict[str, Any], project: str) -> Iterator[dict[str, Any]]:
    """What hooks and agents sent, in order; a session a day."""
    for day, session in enumerate(scenario["sessions"]):
        at = STARTED + timedelta(days=day)
        about = {"project": project, "agent_id": "claude", "session_id": f"{project}-{day}"}
        for place, turn in enumerate(session):
            said = dict(zip(("kind", "data", "content"), turn, strict=False))
            yield {
                "type": "observe", **about, **{name: value for name, value in said.items() if value},
                "occurred_at": (at + timedelta(minutes=place)).isoformat(), "event_id": f"{project}-{day}-{place}",
            }  # fmt: skip
    for kind in ("remember", "lesson", "slot", "action"):
        for place, fields in enumerate(scenario[kind]):
            yield {
                "type": kind,
                "project": project,
                "agent_id": "claude",
                "event_id": f"{project}-{kind}-{place}",
                **fields,
            }


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Write, end the sessions, ask."""
    scenario: dict[str, Any] = json.loads(SCENARIO.read_bytes())
    project, pool = f"shop-{datetime.now(UTC):%Y%m%d%H%M%S}", Pool(options.url, options.secret)
    for event in events(scenario, project):
        await pool.post("/v1/events", [event])
    await settled(pool)
    for day in range(len(scenario["sessions"])):
        ended = {"session_id": f"{project}-{day}", "project": project, "status": "ended"}
        await pool.post("/v1/sessions", ended)
        await summarised(pool, project, f"{project}-{day}")
    await settled(pool)
    context: str = (await pool.post("/v1/context", {"project": project, "token_budget": options.tokens}))["context"]
    plain = " ".join(context.split()).lower()
    told = {name: sum(one.lower() in plain for one in phrases) for name, phrases in scenario["told"].items()}
    return {
        "context": context,
        "tokens": len(context) // 3,
        **{name: f"{count} of {len(scenario['told'][name])}" for name, count in told.items()},
    }


async def main() -> None:
    """Print the context and the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111"))
    parser.add_argument("--tokens", type=int, default=800)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.secret = os.environ.get("MNEMOLOG_SECRET")
    figures = await measure(options)
    if not options.json:
        print(figures.pop("context"), end="\n\n")
    print(json.dumps(figures, indent=None if options.json else 1))


if __name__ == "__main__":
    uvloop.run(main())
