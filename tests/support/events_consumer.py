"""A consumer of `GET /v1/events` that can be killed at any time: it appends `CURSOR POSITION` of each event to a file.

It goes on after the last whole line of the file, so it misses nothing, and may get an event twice.
"""

import json
import sys
from pathlib import Path

import httpx


def main(url: str, key: str, agent: str, path: str) -> None:
    """Follow the events of an agent until killed."""
    file = Path(path)
    whole = file.read_bytes().rpartition(b"\n")[0] if file.exists() else b""
    after = whole.rpartition(b"\n")[2].partition(b" ")[0].decode() or "0:1-0"
    query = {"agent_id": agent, "after": after}
    headers = {"Authorization": f"Bearer {key}", "Accept": "text/event-stream"}
    with file.open("wb") as lines, httpx.stream("GET", f"{url}/v1/events", params=query, headers=headers) as answer:
        lines.write(whole + b"\n" * bool(whole))
        lines.flush()
        cursor = ""
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                cursor = value
            elif name == "data":
                lines.write(f"{cursor} {json.loads(value)['position']}\n".encode())
                lines.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
