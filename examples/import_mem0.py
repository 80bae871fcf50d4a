"""Moves memories of mem0 here: reads what its `get_all` answered, one file for each answer.

    pip install ./clients/python
    python examples/import_mem0.py PROJECT FILE...        (needs a running server: `mnemolog up`)

Run again it stores nothing twice: a memory's event id is its id there. The address is taken from MNEMOLOG_URL, the
key from MNEMOLOG_KEY.
"""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from mnemolog_client import Mnemolog

BATCH = 500


def memories(path: Path) -> Iterator[dict[str, Any]]:
    """The memories of a file: the list that mem0 answers, or the object that has it in `results`."""
    answer = json.loads(path.read_text())
    yield from answer["results"] if isinstance(answer, dict) else answer


def command(memory: dict[str, Any], project: str) -> dict[str, Any]:
    """What stores a memory of mem0 with its owner, its time, and its id there. mem0 told repeats apart already."""
    said = datetime.fromisoformat(memory["created_at"].replace("Z", "+00:00")) if memory.get("created_at") else None
    if said is not None and said.tzinfo is None:
        said = said.replace(tzinfo=UTC)
    noted: dict[str, Any] = memory.get("metadata") or {}
    metadata = {key: value if isinstance(value, str) else json.dumps(value) for key, value in noted.items()}
    return {
        "type": "remember",
        "event_id": f"mem0-{memory['id']}",
        "project": project,
        "content": memory["memory"],
        "user_id": memory.get("user_id") or "",
        "agent_id": memory.get("agent_id") or "",
        "session_id": memory.get("run_id") or "",
        "tags": memory.get("categories") or [],
        "occurred_at": said and said.isoformat(),
        "metadata": {**metadata, "mem0_id": memory["id"]},
        "keep_duplicates": True,
    }  # fmt: skip


def main() -> None:
    """Import every file, and say what became of it."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    project, *files = sys.argv[1:]
    stored = known = 0
    with Mnemolog() as client:
        commands = (command(memory, project) for file in files for memory in memories(Path(file)))
        while batch := list(islice(commands, BATCH)):
            done = client.batch(batch)
            stored, known = stored + done.accepted, known + done.duplicates
            for refused in done.rejected:
                print(f"refused: {batch[refused.index]['event_id']}: {refused.message}")
    print(f"{stored} memories stored, {known} known already")


if __name__ == "__main__":
    main()
