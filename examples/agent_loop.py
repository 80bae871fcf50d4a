"""A plain agent: it reads what is known, works, and writes down what it saw, learned and was right about.

    pip install ./clients/python
    python examples/agent_loop.py        (needs a running server: `mnemolog up`)

The address is taken from MNEMOLOG_URL, the key from MNEMOLOG_KEY.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir
from uuid import uuid4

from mnemolog_client import Emitter, Mnemolog, Unreachable

PROJECT, AGENT = "agent-loop", "ada"
SPOOL = Path(gettempdir()) / f"mnemolog-{AGENT}-{os.getuid()}"
"""What was observed and not sent yet survives a crash of this process here."""
CHECKS = {
    "python": [sys.executable, "--version"],
    "tests": [sys.executable, "-c", "raise SystemExit('1 failed, 12 passed')"],
}


def run(memory: Mnemolog, emitter: Emitter, session: str, name: str, command: list[str]) -> bool:
    """Whether a command succeeded. What it warns of is read before, what came of it is observed afterward."""
    for lesson in memory.lessons.match("Bash", preview=" ".join(command), project=PROJECT):
        print(f"  careful: {lesson.content}")
        memory.lessons.trigger(lesson.id)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).strip()
    emitter.observe(
        session, f"{name}: {said}", project=PROJECT, kind="command_run" if done.returncode == 0 else "error"
    )
    print(f"  {name}: {said}")
    return done.returncode == 0


def main() -> None:
    """One session of the agent."""
    session = f"session-{uuid4().hex[:8]}"
    with Mnemolog(agent=AGENT) as memory, memory.emitter(SPOOL) as emitter:
        memory.sessions.start(session, project=PROJECT, title="Check the build")
        print("known before:", memory.context(PROJECT, session_id=session, token_budget=500).tokens, "tokens")

        known = memory.search("what do the tests need?", project=PROJECT, kinds=["memory"], limit=3)
        for result in known:
            print(f"recalled ({result.confidence}): {result.snippet}")
        if known:
            memory.confirm([known[0].id])

        failed = [name for name, command in CHECKS.items() if not run(memory, emitter, session, name, command)]
        emitter.flush()  # from here on, reads see what was emitted, too

        if failed:
            kept = memory.add(
                "The tests need the staging database.", project=PROJECT, session_id=session, tags=["tests"]
            )
            memory.lessons.create(
                "Start the database before the tests.",
                project=PROJECT,
                severity="warning",
                trigger_tool="Bash",
                trigger_pattern="SystemExit",
            )
            task = memory.actions.create(
                f"Repair: {', '.join(failed)}", project=PROJECT, session_id=session, priority=5
            )
            print("remembered:", memory.memories.get(kept.id).content)
            print("to do:", [one.title for one in memory.frontier(project=PROJECT).items])
            memory.actions.update(task.id, status="done", result="left to the next session")

        memory.sessions.end(session, project=PROJECT, outcome="failed" if failed else "completed")
        print(
            "observed:",
            [observation.headline for observation in memory.sessions.observations(session, project=PROJECT)],
        )


if __name__ == "__main__":
    try:
        main()
    except Unreachable as error:
        raise SystemExit(f"{error}. Start a server with `mnemolog up`, or set MNEMOLOG_URL.") from None
