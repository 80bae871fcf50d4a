"""Writes down what clients, operators and the log can see, so that two versions can be compared.

    python tools/wire.py OUT.json            # in each of two checkouts, then: diff OLD.json NEW.json

Starts a server of this checkout with every imitated system's API in a folder of its own, and records: the OpenAPI
document of each listener, the tools, resources and prompts of each MCP profile, the answers to a fixed run of writes
and reads, the Redis keys of that run with their types, and the command line's help. What differs between two runs of
one version (times, ports, generated ids, numbers in answers) is replaced by its kind.
"""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import redis

ROOT = Path(__file__).parents[1]
READY_S, PROJECTED_S = 120, 60
PROFILES = ("native", "agentmemory", "memex", "agent-memory")
WRITES: list[tuple[str, str, Any]] = [
    ("main", "/v1/observations", {"project": "p", "session_id": "s", "event_id": "w1", "content": "It reconnects."}),
    ("main", "/v1/memories", {"project": "p", "event_id": "w2", "content": "Staging is on port 6380.", "tags": ["a"]}),
    ("main", "/v1/lessons", {"project": "p", "event_id": "w3", "content": "Run the migration before the deploy."}),
    ("main", "/v1/actions", {"project": "p", "event_id": "w4", "title": "Rotate the certificate"}),
    ("main", "/agentmemory/session/start", {"sessionId": "am-s", "project": "am", "cwd": "/srv/am"}),
    ("main", "/agentmemory/remember", {"content": "The linter runs in CI.", "project": "am"}),
    ("main", "/agentmemory/lessons", {"content": "Pin the compiler.", "project": "am"}),
    ("agentd", "/memories", {"content": "Likes short answers.", "created_by": "u", "scope": "s"}),
    ("agent_memory", "/api/observations", {"session_id": "x", "project": "y", "title": "Fixed it"}),
    ("memex", "/v1/memories", {"agent_id": "a", "user_id": "u", "content": "In Oslo.", "memory_type": "semantic"}),
    ("main", "/v1/recall", {"project": "p", "query": "which port for staging?"}),
    ("main", "/v1/context", {"project": "p", "query": "deploy"}),
    ("main", "/agentmemory/diagnostics", {}),
    ("agentd", "/memories/search", {"query": "answers"}),
    ("agent_memory", "/api/observations/search", {"query": "fixed"}),
    ("memex", "/v1/memories/search", {"agent_id": "a", "user_id": "u", "query": "where"}),
    ("main", "/agentmemory/search", {"query": "linter", "project": "am"}),
]  # fmt: skip
READS = (
    "/v1/diagnose", "/v1/memories?project=p", "/v1/lessons?project=p", "/v1/sessions?project=p",
    "/v1/actions?project=p", "/v1/events?limit=50", "/readyz", "/agentmemory/health",
    "/agentmemory/sessions", "/agentmemory/memories",
    "/agentmemory/lessons", "/v1/no-such-route",
)  # fmt: skip
VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?"), "TIME"),
    (re.compile(r"\b\d{13}-\d+\b"), "POSITION"),
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b"), "ULID"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\b((?:evt|obs|mem|les|lsn|act|sum|ses|rel|slot|lesson|action)_)[0-9a-z_]{12,}"), r"\1ID"),
    (re.compile(r"[\d,]+ MiB"), "N MiB"),
    (re.compile(r"\b[0-9a-f]{16,64}\b"), "HEX"),
    (re.compile(r"\{p\d\d\}"), "{pNN}"),
    (re.compile(r"(?<=[\"/:\s])/tmp/[^\s\"']+"), "FOLDER"),
)
QUEUED = ("arq:job:embed:ULID", "mnemolog:arq")
"""Keys of a job that happens to be queued when the keys are listed."""
NUMBER = 0
"""Stands for every number of an answer: lags, sizes and scores differ from run to run."""


def main() -> None:
    """Write the record of this checkout."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    with tempfile.TemporaryDirectory(prefix="mnemo-wire-") as folder:
        out.write_text(json.dumps(_record(Path(folder)), indent=1, sort_keys=False, ensure_ascii=False) + "\n")
    print(f"{out}: {len(out.read_bytes()):,} bytes")


def _record(folder: Path) -> dict[str, Any]:
    names: list[str] = ["main", "agentd", "agent_memory", "memex", "memex_mcp"]
    ports = dict(zip(names, _free_ports(len(names)), strict=True))
    environment = _environment(folder, ports)
    command = [sys.executable, "-m", "api.cli.main"]
    server = subprocess.Popen(
        [*command, "up", "--drop-in", "all"], env=environment, cwd=ROOT, stdout=subprocess.DEVNULL
    )
    try:
        urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        with httpx.Client(timeout=30) as http:
            _wait_until(lambda: http.get(f"{urls['main']}/readyz").status_code == 200, READY_S)
            found: dict[str, Any] = {
                "openapi": _openapi(http, urls),
                "mcp": _mcp(http, urls["main"]),
                "run": _run(http, urls),
            }
            found["keys"] = _keys(folder)
        found["help"] = _help(command, environment)
        return _settled(found, ports)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)


def _environment(folder: Path, ports: dict[str, int]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MNEMOLOG_", "REDIS_", "XDG_"))}
    variables = {"main": "PORT", "agentd": "AGENTD_PORT", "agent_memory": "AGENT_MEMORY_PORT", "memex": "MEMEX_PORT"}
    variables["memex_mcp"] = "MEMEX_MCP_PORT"
    return kept | {
        **{f"MNEMOLOG_{variables[name]}": str(port) for name, port in ports.items()},
        **{f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("DATA", "STATE", "CONFIG", "CACHE")},
        "MNEMOLOG_DATA_DIR": str(folder / "data"),
        "MNEMOLOG_EMBEDDER": "none",
        "MNEMOLOG_PARTITIONS": "4",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "120",
        "TERM": "dumb",
    }


def _openapi(http: httpx.Client, urls: dict[str, str]) -> dict[str, Any]:
    places = {name: f"{url}/openapi.json" for name, url in urls.items() if name != "memex_mcp"}
    places["agentmemory"] = f"{urls['main']}/agentmemory/openapi.json"
    return {name: http.get(place).json() for name, place in places.items()}


def _mcp(http: httpx.Client, url: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for profile in PROFILES:
        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
            body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
            accepted = {"Accept": "application/json, text/event-stream"}
            answer = http.post(f"{url}/mcp?profile={profile}", json=body, headers=accepted)
            found[f"{profile} {method}"] = answer.json()
    return found


def _run(http: httpx.Client, urls: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, path, body in WRITES:
        answer = http.post(urls[name] + path, json=body)
        found[f"POST {name} {path}"] = [answer.status_code, _typed(_json(answer))]
        _wait_until(lambda: http.get(f"{urls['main']}/readyz").json().get("lag") == {}, PROJECTED_S)
    for path in READS:
        answer = http.get(urls["main"] + path)
        found[f"GET {path}"] = [answer.status_code, _typed(_json(answer))]
    return found


def _keys(folder: Path) -> list[str]:
    socket_file = next(folder.rglob("valkey.sock"))
    with redis.Redis(unix_socket_path=str(socket_file), decode_responses=True) as client:
        counted = Counter(f"{client.type(key)} {_replaced(str(key), {})}" for key in client.scan_iter(count=1_000))
    return sorted(key for key in counted if not key.endswith(QUEUED) and "arq:in-progress" not in key)


def _help(command: list[str], environment: dict[str, str]) -> dict[str, str]:
    def text(*words: str) -> str:
        done = subprocess.run([*command, *words, "--help"], env=environment, cwd=ROOT, capture_output=True, text=True)
        return done.stdout

    top = text()
    names = re.findall(r"^[│ ]+([a-z][a-z-]+)  ", top, re.MULTILINE)
    return {"": top, **{name: text(name) for name in names}}


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return answer.text


def _typed(value: Any) -> Any:
    """The value with its keys, their order and its texts; every number as NUMBER."""
    if isinstance(value, dict):
        return {key: {} if key == "lag" else _typed(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_typed(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return NUMBER if isinstance(value, int | float) and not isinstance(value, bool) else value


def _settled(value: Any, ports: dict[str, int]) -> Any:
    """The value with what varies replaced in all its texts and keys."""
    if isinstance(value, dict):
        return {_replaced(key, ports): _settled(item, ports) for key, item in value.items()}  # pyright: ignore
    if isinstance(value, list):
        return [_settled(item, ports) for item in value]  # pyright: ignore
    return _replaced(value, ports) if isinstance(value, str) else value


def _replaced(text: str, ports: dict[str, int]) -> str:
    for name, port in ports.items():
        text = text.replace(f":{port}", f":PORT-{name}")
    for pattern, kind in VARYING:
        text = pattern.sub(kind, text)
    return text


def _wait_until(holds: Any, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if holds():
                return
        except (httpx.HTTPError, ValueError):
            pass
        time.sleep(0.2)
    raise TimeoutError(f"not within {seconds} s")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [socket.getsockname()[1] for socket in sockets]
    finally:
        for one in sockets:
            one.close()


if __name__ == "__main__":
    main()
