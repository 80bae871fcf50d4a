"""Hooks whose server is behind TLS, as one server for a team is: a proxy with a certificate before the real server."""

import asyncio
import json
import ssl
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

import httpx
import pytest
from ports import free_port
from waiting import wait_until

from api.agents.spools import FAILURE
from tests.acceptance.running import Server
from tests.acceptance.test_agent_hooks import Agent, agent_of, observations

PROMPTS = 12


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 and localhost, with its key."""
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    made += [
        "-subj",
        "/CN=127.0.0.1",
        "-addext",
        "subjectAltName=IP:127.0.0.1,DNS:localhost",
        "-keyout",
        str(file),
        "-out",
        "-",
    ]
    done = subprocess.run(made, capture_output=True, check=True)
    file.write_bytes(file.read_bytes() + done.stdout)
    return file


@contextmanager
def proxy(server: Server, certificate: Path, port: int) -> Generator[None]:
    """A reverse proxy with TLS on a port of this machine."""

    class Forward(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            passed = ("Content-Type", "Authorization", "X-Agent-Id")
            headers = {name: self.headers[name] for name in passed if name in self.headers}
            with urlopen(Request(server.url + self.path, body or None, headers, method=self.command)) as answer:
                content = answer.read()
                self.send_response(answer.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", port), Forward)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    try:
        yield
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


async def test_events_for_a_server_behind_tls_arrive_once_and_in_order(
    server: Server, client: httpx.AsyncClient, project: str, tmp_path: Path, certificate: Path
):
    """Also those of the time in which the server was unavailable; the user is told once."""
    port = free_port()
    spool = tmp_path / "spool"
    given = agent_of(server, project, tmp_path)
    environ = {**given.environ, "MNEMOLOG_URL": f"https://127.0.0.1:{port}", "SSL_CERT_FILE": str(certificate)}
    agent: Agent = given._replace(environ={**environ, "MNEMOLOG_SPOOL": str(spool), "MNEMOLOG_HOOK_CONTEXT": "1"})
    told: list[str] = []

    def hook(event: str, **fields: str) -> None:
        answer = agent.hook(event, **fields).stdout
        told.extend([json.loads(answer).get("systemMessage", "")] if answer else [])

    await asyncio.to_thread(hook, "SessionStart", source="startup")
    for number in range(PROMPTS):
        await asyncio.to_thread(hook, "UserPromptSubmit", prompt=f"Prompt number {number} of the remote session")
    messages = [message for message in told if message]
    assert len(messages) == 1
    assert "wait in the spool" in messages[0] or "waits in the spool" in messages[0]
    await wait_until(lambda: (spool / FAILURE).exists())
    with proxy(server, certificate, port):
        await asyncio.to_thread(hook, "Stop", last_assistant_message="All of it was recorded.")
        await wait_until(lambda: not agent.spooled(), 60)
        await wait_until(lambda: _is_recorded(client, agent, project, PROMPTS + 1))
    recorded = [item["data"].get("prompt") or item["content"] for item in await observations(client, agent)]
    prompts = [f"Prompt number {number} of the remote session" for number in range(PROMPTS)]
    assert recorded == [*prompts, "All of it was recorded."]
    assert not (spool / "rejected").exists()


@pytest.mark.nightly
@pytest.mark.timeout(600)
async def test_300_events_for_a_named_server_that_was_away_for_two_minutes_arrive_once_and_in_order(
    server: Server, client: httpx.AsyncClient, project: str, tmp_path: Path, certificate: Path
):
    port, spool = free_port(), tmp_path / "spool"
    given = agent_of(server, project, tmp_path)
    environ = {**given.environ, "MNEMOLOG_URL": f"https://localhost:{port}", "SSL_CERT_FILE": str(certificate)}
    agent: Agent = given._replace(environ={**environ, "MNEMOLOG_SPOOL": str(spool)})
    texts = [f"Prompt number {number} of the named session" for number in range(300)]
    printed: list[bytes] = []

    async def submit(prompts: list[str]) -> None:
        for prompt in prompts:
            printed.append((await asyncio.to_thread(agent.hook, "UserPromptSubmit", prompt=prompt)).stdout)

    with proxy(server, certificate, port):
        await submit(texts[:100])
    away = asyncio.create_task(asyncio.sleep(120))
    await submit(texts[100:200])
    await away
    with proxy(server, certificate, port):
        await submit(texts[200:])
        await wait_until(lambda: not agent.spooled(), 120)
        await wait_until(lambda: _is_recorded(client, agent, project, len(texts)), 60)
    assert [item["data"]["prompt"] for item in await observations(client, agent)] == texts
    assert len([answer for answer in printed if b"systemMessage" in answer]) == 1
    assert not (spool / "rejected").exists()


async def _is_recorded(client: httpx.AsyncClient, agent: Agent, project: str, count: int) -> bool:
    answer = await client.get(f"/v1/sessions/{agent.session}", params={"project": project})
    return answer.status_code == 200 and answer.json()["observation_count"] == count
