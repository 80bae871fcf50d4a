"""`make chaos`: a fleet's half hour, compressed, with everything going wrong; writes a ledger, exits 1 on a fault.

SECONDS=300 SEED=9 LEDGER=chaos-ledger.json python -m tests.chaos.run
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from ingest.platform.settings import Settings
from tests.chaos.check import check_everything
from tests.chaos.faults import Faults
from tests.chaos.fleet import VIRTUAL_START, Agent
from tests.chaos.ledger import Ledger, Verdict
from tests.chaos.stack import DIMENSIONS, embedding_service, running
from tests.support.ports import free_port

PARTITIONS, AGENTS = 4, 8
FAULT_EVERY_S = 4.0


class Outcome(NamedTuple):
    """What came of a run: the verdict, and all that the ledger's file says."""

    verdict: Verdict
    report: dict[str, Any]


async def chaos(seconds: float, seed: int, work: Path) -> Outcome:
    """Let a fleet write for `seconds` while faults happen, then compare everything; work is an empty folder."""
    ledger, stop, began = Ledger(), asyncio.Event(), time.monotonic()
    with embedding_service() as embeddings:
        settings = Settings(
            data_dir=work / "data",
            cache_dir=work / "cache",
            port=free_port(),
            partitions=PARTITIONS,
            embedder=f"openai:{embeddings}|hash|{DIMENSIONS}",
            snapshot_every=500,
        )
        async with running(settings) as stack:
            url = f"http://127.0.0.1:{settings.port}"
            agents = [Agent(number, seed, url, ledger, stop) for number in range(AGENTS)]
            writing = [asyncio.create_task(agent.run()) for agent in agents]
            faults = Faults(stack, ledger, seed)
            failing = asyncio.create_task(faults.run(seconds, FAULT_EVERY_S))
            await asyncio.wait([failing, *writing], return_when=asyncio.FIRST_COMPLETED)
            stop.set()
            await asyncio.gather(*writing)
            await failing
            wrote_s = time.monotonic() - began
            verdict = await check_everything(stack, ledger, work, seed)
        if stack.error:
            raise stack.error
    virtual = min(agent.clock for agent in agents) - VIRTUAL_START
    report = {
        "seed": seed,
        "seconds": round(wrote_s, 1),
        "seconds_with_checks": round(time.monotonic() - began, 1),
        "virtual_minutes": round(virtual.total_seconds() / 60, 1),
        "agents": AGENTS,
        **verdict.told(),
        "forgotten": len(ledger.forgotten),
        "replay_equals_live": True,  # check_everything raises otherwise
        "faults": dict(sorted(faults.done.items())),
        "requests": dict(sorted(ledger.counts.items())),
    }
    return Outcome(verdict, report)


def main() -> int:
    """Run, write the ledger, print it; 0 when nothing was lost, doubled or invented."""
    seconds, seed = float(os.environ.get("SECONDS", "300")), int(os.environ.get("SEED", "9"))
    file = Path(os.environ.get("LEDGER", "chaos-ledger.json"))
    with tempfile.TemporaryDirectory(prefix="mnemolog-chaos-") as work:
        outcome = asyncio.run(chaos(seconds, seed, Path(work)))
    text = json.dumps(outcome.report, indent=2)
    file.write_text(text + "\n")
    print(text)
    return 0 if outcome.verdict.faultless else 1


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
    sys.exit(main())
