"""Does recall know when it does not know? Questions with and without an answer, through the HTTP API of a server.

    python -m benchmarks.abstain [--work AGENTWORK --outcomes OUTCOMES] [--data PATH ...] [--url http://127.0.0.1:3111]

The sessions of `benchmarks/coding.py` answer their own questions and none of `coding_unsaid.json`; hooks have recorded
every question as a prompt before it is asked. Of each `--data` (see `benchmarks/relevance.py`): recall@10 with the
limit of confidence and without, and the share of empty answers.

Every turn of `AGENTWORK` (see `benchmarks/relevance.py`) is written as one observation; its questions have an answer,
those of `unanswerable` in `OUTCOMES` none in their project. Measured: the area under the ROC curve of the first
result's confidence, the share of the former that get results by default, and the share of the latter that get none.
"""

import argparse
import asyncio
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from benchmarks import relevance
from benchmarks.coding import SESSIONS, Session, events
from benchmarks.driving import Pool, fill, settled
from benchmarks.relevance import APART, events_of

UNSAID = Path(__file__).parent / "coding_unsaid.json"
"""Questions that the sessions of `coding_sessions.json` do not answer."""
BEFORE = ("", "Please tell me: ", "Hey, can you look up: ", "")
"""What prompts say before the question."""


def area(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Under the ROC curve: how often a positive is above a negative; equals count half."""
    above, below = np.array(positive, np.float64)[:, None], np.array(negative, np.float64)[None, :]
    return float((above > below).mean() + 0.5 * (above == below).mean())


async def ask(pool: Pool, project: str, questions: Sequence[str]) -> tuple[list[float], list[bool]]:
    """For each question the confidence of the answer (0 without any), and whether anything was answered."""
    sure, answered = list[float](), list[bool]()
    for question in questions:
        answer = await pool.post("/v1/recall", {"query": question, "project": project})
        sure.append(answer["confidence"] or 0.0)
        answered.append(bool(answer["results"]))
    return sure, answered


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Write, wait, ask."""
    work: list[dict[str, Any]] = json.loads(options.work.read_bytes()) if options.work else []
    wanted: list[dict[str, Any]] = json.loads(options.outcomes.read_bytes()) if options.work else []
    run, pool = f"abstain-{datetime.now(UTC):%Y%m%d%H%M%S}", Pool(options.url, options.secret)
    await fill(pool, (event for project in work for event in events_of(project, run)), batch=200, clients=1)
    await settled(pool, embedded=not options.now)
    await asyncio.sleep(1.0)  # the last vectors are on their way through the feed
    figures: dict[str, Any] = {}
    all_known, all_unknown = list[tuple[float, bool]](), list[tuple[float, bool]]()
    for project, outcomes in zip(work, wanted, strict=True):
        name = f"{run}:{project['sample_id']}"
        known = list(zip(*await ask(pool, name, [one["question"] for one in project["qa"]]), strict=True))
        unknown = list(zip(*await ask(pool, name, outcomes["unanswerable"]), strict=True))
        figures[project["sample_id"]] = _figures(known, unknown)
        all_known += known
        all_unknown += unknown
    overall = {"overall": _figures(all_known, all_unknown)} if work else {}
    figures["coding_prompts"] = await prompted(pool, f"{run}:prompts", embedded=not options.now)
    for path in options.data:
        data = json.loads(path.read_bytes())
        figures[path.stem] = await withheld(pool, data, f"{run}:data", embedded=not options.now)
    return {**overall, **figures}


async def prompted(pool: Pool, run: str, *, embedded: bool) -> dict[str, float]:
    """Questions that sessions answer and others, each recorded by a hook before it is asked."""
    sessions = [Session(*row) for row in json.loads(SESSIONS.read_bytes())]
    known = [question for one in sessions for question in (one.asks_finding, one.asks_decision)]
    unknown: list[str] = json.loads(UNSAID.read_bytes())
    asking = (
        {
            "type": "observe", "project": run, "agent_id": "claude", "session_id": f"{run}-asks-{number}",
            "kind": "prompt_submit", "data": {"prompt": BEFORE[number % len(BEFORE)] + question},
            "event_id": f"{run}-asks-{number}",
        }
        for number, question in enumerate([*known, *unknown])
    )  # fmt: skip
    await fill(pool, chain(events(run, sessions), asking), batch=200, clients=1)
    await settled(pool, embedded=embedded)
    await asyncio.sleep(1.0)
    answers = [list(zip(*await ask(pool, run, questions), strict=True)) for questions in (known, unknown)]
    return _figures(*answers)


async def withheld(pool: Pool, data: Sequence[dict[str, Any]], run: str, *, embedded: bool) -> dict[str, float]:
    """What the limit costs: recall@10 with it and without, and the share of questions that get nothing."""
    await fill(pool, (event for one in data for event in events_of(one, run)), batch=200, clients=1)
    await settled(pool, embedded=embedded)
    await asyncio.sleep(1.0)
    asked = [question for one in data for question in relevance.questions(one) if question.category not in APART]
    shares: dict[str, float] = {}
    for name, least in (("limit", {}), ("no_limit", {"min_confidence": 0})):
        found = [
            [result["metadata"]["turn"] for result in (await pool.post("/v1/recall", body | least))["results"]]
            for body in ({"query": one.text, "project": f"{run}:{one.sample}", "limit": 10} for one in asked)
        ]
        pairs = list(zip(asked, found, strict=True))
        share = np.mean([len(one.evidence & set(turns)) / len(one.evidence) for one, turns in pairs])
        empty = np.mean([not turns for turns in found])
        shares |= {name: round(100 * float(share), 1), f"{name}_empty": round(100 * float(empty), 1)}
    return {"questions": len(asked), **shares}


def _figures(known: Sequence[tuple[float, bool]], unknown: Sequence[tuple[float, bool]]) -> dict[str, float]:
    return {
        "auc": round(area([sure for sure, _ in known], [sure for sure, _ in unknown]), 3),
        "answered": round(float(np.mean([answered for _, answered in known])), 3),
        "refused": round(1 - float(np.mean([answered for _, answered in unknown])), 3),
    }


async def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--outcomes", type=Path)
    parser.add_argument("--data", type=Path, action="append", default=[])
    parser.add_argument("--url", default=os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111"))
    parser.add_argument("--now", action="store_true", help="ask without waiting for contextual vectors")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.secret = os.environ.get("MNEMOLOG_SECRET")
    print(json.dumps(await measure(options), indent=None if options.json else 1))


if __name__ == "__main__":
    uvloop.run(main())
