"""Do summaries and a new session's context say what came of past sessions? Through the HTTP API of a running server.

    python -m benchmarks.outcomes --work AGENTWORK --outcomes OUTCOMES [--url http://127.0.0.1:3111] [--show]

Every turn of `AGENTWORK` (see `benchmarks/relevance.py`) is written as one observation, then each session is ended.
`OUTCOMES` is a list of `{sample_id, sessions: [{session, goal, outcome, decisions, open}]}`; each of the four is a list
of key facts, a fact a list of regular expressions any of which tells it. Measured: the share of its facts that a
session's summary says, with its length in tokens (four characters); the share of the facts of a project's last three
sessions that the context of a new session says, without a query; and the seconds from a session's end to its summary,
where nothing else is done. The contexts of 1,000 tokens are asked for as the server counts them, three characters each.
"""

import argparse
import asyncio
import json
import os
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple
from urllib.parse import quote

import uvloop

from benchmarks.driving import Pool, fill, settled
from benchmarks.relevance import events_of
from benchmarks.wire import Refused

KINDS = ("goal", "outcome", "decisions", "open")
LAST = 3
BUDGET = 1_000
TOKEN_CHARS = 4
TIMED = 5
"""Sessions that are ended once more, one at a time, to see when their summary is there."""
SUMMARY_WITHIN_S = 300.0
LOOK_EVERY_S = 0.05
_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "*": None, "`": None})

Facts = list[tuple[str, list[re.Pattern[str]]]]
"""Kind and alternatives of each."""


class Said(NamedTuple):
    """Which facts a text says, their kinds, and how long it is."""

    kinds: list[str]
    hits: list[bool]
    tokens: float


def facts_of(session: dict[str, Any]) -> Facts:
    """The key facts of a session."""
    return [
        (kind, [re.compile(one, re.IGNORECASE | re.DOTALL) for one in fact]) for kind in KINDS for fact in session[kind]
    ]


def said_of(text: str, facts: Facts) -> Said:
    """Which facts a text says: emphasis and curly quotes do not count, nor how it is broken into lines."""
    plain = " ".join(text.translate(_QUOTES).split())
    hits = [any(one.search(plain) for one in alternatives) for _, alternatives in facts]
    return Said([kind for kind, _ in facts], hits, len(plain) / TOKEN_CHARS)


def summed_up(said: Sequence[Said]) -> dict[str, float]:
    """Percent of a text's facts, on average; of each kind, over all facts; mean tokens."""
    figures = {"recall": 100 * fmean(fmean(one.hits) for one in said), "tokens": fmean(one.tokens for one in said)}
    for kind in KINDS:
        hits = [hit for one in said for name, hit in zip(one.kinds, one.hits, strict=True) if name == kind]
        figures[kind] = 100 * fmean(hits) if hits else 0.0
    return {name: round(value, 1) for name, value in figures.items()}


async def summary_of(pool: Pool, project: str, session: str) -> dict[str, Any] | None:
    """The summary of a session, None while there is none."""
    try:
        return await pool.get(f"/v1/sessions/{quote(session, safe='')}/summary?project={quote(project, safe='')}")
    except Refused:
        return None


def told(summary: dict[str, Any] | None) -> str:
    """What a summary says in words."""
    if summary is None:
        return ""
    parts = [summary["title"], summary["narrative"], *summary.get("decisions", []), *summary.get("remaining", [])]
    return " ".join(parts)


async def summarised(pool: Pool, project: str, session: str, least: int = 1) -> dict[str, Any]:
    """The summary of at least so many observations, once it is there. Raises TimeoutError."""
    deadline = time.monotonic() + SUMMARY_WITHIN_S
    while time.monotonic() < deadline:
        found = await summary_of(pool, project, session)
        if found is not None and found["observation_count"] >= least:
            return found
        await asyncio.sleep(LOOK_EVERY_S)
    raise TimeoutError(f"session {session} has no summary after {SUMMARY_WITHIN_S:.0f} s")


async def end(pool: Pool, project: str, session: str) -> None:
    """Say that a session ended."""
    await pool.post("/v1/sessions", {"session_id": session, "project": project, "status": "ended"})


async def time_to_summary(pool: Pool, project: str, session: str) -> float:
    """Seconds from the end of a session, taken up again with a word more, to the summary that has it."""
    before = (await summarised(pool, project, session))["observation_count"]
    event = {"project": project, "session_id": session, "agent_id": "bench", "kind": "message"}
    await pool.post("/v1/events", [{"type": "observe", **event, "content": "All of it was checked once more."}])
    await settled(pool)
    began = time.monotonic()
    await end(pool, project, session)
    await summarised(pool, project, session, before + 1)
    return time.monotonic() - began


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Write, end, wait, ask."""
    work: list[dict[str, Any]] = json.loads(options.work.read_bytes())
    wanted: list[dict[str, Any]] = json.loads(options.outcomes.read_bytes())
    run, pool = f"outcomes-{datetime.now(UTC):%Y%m%d%H%M%S}", Pool(options.url, options.secret)
    await fill(pool, (event for project in work for event in events_of(project, run)), batch=200, clients=1)
    await settled(pool)
    of_summaries, of_contexts, waits = list[Said](), list[Said](), list[float]()
    for project, outcomes in zip(work, wanted, strict=True):
        name = f"{run}:{project['sample_id']}"
        sessions = [(one, f"{run}:{one['session']}") for one in outcomes["sessions"]]
        for _, session in sessions:
            await end(pool, name, session)
        for one, session in sessions:
            said = told(await summarised(pool, name, session))
            of_summaries.append(said_of(said, facts_of(one)))
            if options.show:
                print(f"{session}: {said}\n")
        await settled(pool)
        context = await pool.post("/v1/context", {"project": name, "token_budget": BUDGET})
        facts = [fact for one, _ in sessions[-LAST:] for fact in facts_of(one)]
        of_contexts.append(said_of(context["context"], facts))
        if options.show:
            print(f"{context['context']}\n")
        waits += [await time_to_summary(pool, name, session) for _, session in sessions[:TIMED]]
    return {
        "summary": summed_up(of_summaries),
        "context": summed_up(of_contexts),
        "summary_after_s": {"p50": round(median(waits), 2), "max": round(max(waits), 2)},
    }


async def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--outcomes", type=Path, required=True)
    parser.add_argument("--url", default=os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111"))
    parser.add_argument("--show", action="store_true", help="print the summaries and contexts")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.secret = os.environ.get("MNEMOLOG_SECRET")
    figures = await measure(options)
    print(json.dumps(figures, indent=None if options.json else 1))


if __name__ == "__main__":
    uvloop.run(main())
