"""Does recall know when it does not know? Questions with and without an answer, through the HTTP API of a server.

    python -m benchmarks.abstain --work AGENTWORK --outcomes OUTCOMES [--url http://127.0.0.1:3111]

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
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from benchmarks.driving import Pool, fill, settled
from benchmarks.relevance import events_of


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
    work: list[dict[str, Any]] = json.loads(options.work.read_bytes())
    wanted: list[dict[str, Any]] = json.loads(options.outcomes.read_bytes())
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
    return {"overall": _figures(all_known, all_unknown), **figures}


def _figures(known: Sequence[tuple[float, bool]], unknown: Sequence[tuple[float, bool]]) -> dict[str, float]:
    return {
        "auc": round(area([sure for sure, _ in known], [sure for sure, _ in unknown]), 3),
        "answered": round(float(np.mean([answered for _, answered in known])), 3),
        "refused": round(1 - float(np.mean([answered for _, answered in unknown])), 3),
    }


async def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--outcomes", type=Path, required=True)
    parser.add_argument("--url", default=os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111"))
    parser.add_argument("--now", action="store_true", help="ask without waiting for contextual vectors")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.secret = os.environ.get("MNEMOLOG_SECRET")
    print(json.dumps(await measure(options), indent=None if options.json else 1))


if __name__ == "__main__":
    uvloop.run(main())
