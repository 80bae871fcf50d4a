"""Mistakes of a command line's user, against a real server: one line of error with the right advice and exit code."""

import json
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import NamedTuple

import pytest
from commands import run
from ports import free_port

from tests.acceptance.running import SECRET, Server

HEADER = '{"format":"mnemolog-export","version":1,"tenant":"default","project":null}\n'
NOTHING = HEADER + '{"end":true,"events":0}\n'


class Mistake(NamedTuple):
    """What somebody types (`{url}` and `{host}` are the server's, `{free}` a port that nobody uses), and the answer."""

    command: str
    code: int
    advice: tuple[str, ...]
    stdin: str = ""
    variables: tuple[tuple[str, str], ...] = ()


MISTAKES = {
    "a mistyped command": Mistake("recal x", 2, ("No such command 'recal'. Did you mean 'recall'?",)),
    "a mistyped command of a group": Mistake("memories lst", 2, ("No such command 'lst'. Did you mean 'list'?",)),
    "a mistyped option": Mistake("recall x --projct shop", 2, ("--projct; did you mean --project?",)),
    "no argument": Mistake("recall", 2, ("Missing argument 'query'", "`mnemolog recall --help`")),
    "a negative limit": Mistake("recall x --limit -1", 2, ("--limit must be at least 1",)),
    "a limit that is no number": Mistake("recall x --limit many", 2, ("--limit must be a whole number",)),
    "an unknown choice": Mistake("recall x --mode lexicl", 2, ("hybrid, lexical, vector; did you mean lexical?",)),
    "an unknown host": Mistake("install windsurff", 2, ("did you mean windsurf?",)),
    "an id that does not exist": Mistake("show mem_000", 1, ("there is no document 'mem_000'",)),
    "a session that does not exist": Mistake("show monday", 1, ("no session 'monday'", "begin with obs_, mem_")),
    "an id of another kind": Mistake("lessons retire mem_000", 2, ("is the id of a memory", "begins with lsn_")),
    "forgetting an id of another kind": Mistake("forget memory lsn_000 --yes", 2, ("is the id of a lesson", "mem_")),
    "forgetting without an id": Mistake("forget memory --yes", 2, ("mnemolog forget memory ID",)),
    "forgetting without a terminal": Mistake("forget session s1", 2, ("not a terminal; pass --yes",)),
    "a bad time": Mistake("memories --since tomorow", 2, ("'tomorow' is not a valid time", "2026-01-31T12:00")),
    "bad JSON in an option": Mistake("observe x --data {oops", 2, ("--data must be a JSON object",)),
    "bad JSON on stdin": Mistake("import -", 2, ("the first line is not the header of a mnemolog-",), stdin="{oops\n"),
    "an import of nothing": Mistake("import -", 1, ("nothing was imported",), stdin=NOTHING),
    "a file that does not exist": Mistake("import /nowhere/x", 2, ("/nowhere/x cannot be read: No such file",)),
    "an empty text": Mistake("remember -", 2, ("the text must not be empty",)),
    "a position that is none": Mistake("recall x --after banana", 2, ("'banana' is not a position", "write returned")),
    "a cursor that is none": Mistake("memories --cursor banana", 2, ("not a cursor", "`next` of the previous page")),
    "an unknown project": Mistake("recall x --project mistkes", 1, ("'mistkes' has no", "similar: 'mistakes'")),
    "a server that is not running": Mistake("recall x --url http://127.0.0.1:{free}", 3, ("`mnemolog up`", "--url")),
    "an address without a scheme": Mistake("recall x --url {host}", 2, ("did you mean http://{host}?",)),
    "https to a server without TLS": Mistake("recall x --url https://{host}", 3, ("no TLS at", "http://{host}?")),
    "no key": Mistake("recall x", 1, ("requires a key", "MNEMOLOG_KEY"), variables=(("MNEMOLOG_KEY", ""),)),
    "a wrong key": Mistake("recall x", 1, ("rejected the key", "keys store"), variables=(("MNEMOLOG_KEY", "mnk_x"),)),
    "a mistyped setting": Mistake(
        "config", 2, ("did you mean MNEMOLOG_PORT?",), variables=(("MNEMOLOG_PROT", "1"),)
    ),
    "a mistyped embedder": Mistake(
        "up", 1, ("MNEMOLOG_EMBEDDER=defualt is not one of default, multilingual, none", "did you mean default?"),
        variables=(("MNEMOLOG_EMBEDDER", "defualt"),),
    ),
    "an incomplete embedder": Mistake(
        "up", 1, ("EMBEDDER=openai:… is not one of", "openai:URL|MODEL|DIMENSIONS"),
        variables=(("MNEMOLOG_EMBEDDER", "openai:gpt"),)
    ),
    "a password in an embedder's address": Mistake(
        "up", 1, ("MNEMOLOG_EMBEDDER: the URL contains a user", "put the key in MNEMOLOG_EMBEDDER_KEY"),
        variables=(("MNEMOLOG_EMBEDDER", "openai:http://me:s3cret@127.0.0.1/v1|nomic|8"),),
    ),
    "a password in a language model's address": Mistake(
        "up", 1, ("MNEMOLOG_LLM accepts only a base URL; put the key in MNEMOLOG_LLM_KEY",),
        variables=(("MNEMOLOG_LLM", "http://me:s3cret@127.0.0.1/v1|llama3.2"),),
    ),
    "a language model without an address": Mistake(
        "up", 1, ("MNEMOLOG_LLM must be <base URL>|<model>",), variables=(("MNEMOLOG_LLM", "llama3"),)
    ),
    "a port in use": Mistake("up", 1, ("in use", "MNEMOLOG_PORT"), variables=(("MNEMOLOG_PORT", "{port}"),)),
    "a data folder that is a file": Mistake(
        "up", 1, ("Not a directory", "MNEMOLOG_DATA_DIR"), variables=(("MNEMOLOG_DATA_DIR", __file__),)
    ),
}  # fmt: skip
"""By what is wrong."""


@pytest.fixture(scope="module")
def recorded(server: Server) -> Server:
    """The server with a project of these tests."""
    variables = {"MNEMOLOG_URL": server.url, "MNEMOLOG_SECRET": SECRET}
    written = run(variables, "remember", "we deploy on Tuesdays", "--project", "mistakes", "--json")
    assert written.returncode == 0, written.stderr
    position = json.loads(written.stdout)["position"]
    found = run(variables, "recall", "deploy", "--project", "mistakes", "--min-confidence", "0", "--after", position)
    assert found.returncode == 0, found.stderr
    return server


@pytest.mark.parametrize("wrong", MISTAKES)
def test_a_mistake_is_answered_in_one_line(recorded: Server, tmp_path: Path, wrong: str):
    mistake, free = MISTAKES[wrong], free_port()
    host = recorded.url.removeprefix("http://")
    places = {"host": host, "port": host.rpartition(":")[2], "free": str(free)}
    named = {name: value.replace("{port}", places["port"]) for name, value in mistake.variables}
    variables = {
        "MNEMOLOG_URL": recorded.url, "MNEMOLOG_KEY": SECRET, "HOME": str(tmp_path), "XDG_CONFIG_HOME": "",
        "MNEMOLOG_PORT": str(free), "MNEMOLOG_DATA_DIR": str(tmp_path / "data"), **named,
    }  # fmt: skip
    words = [word.format(**places) if word.startswith(("http", "{")) and word != "{oops" else word
             for word in mistake.command.split()]  # fmt: skip
    done = run(variables, *words, text=mistake.stdin)
    assert done.returncode == mistake.code, done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert not [part for part in mistake.advice if part.format(**places) not in lines[0]], lines[0]
    assert "s3cret" not in done.stderr
    assert not (tmp_path / "data" / "logs").exists(), "a child was started"


def test_at_least_twenty_seven_mistakes_are_tried():
    assert len(MISTAKES) >= 27


@contextmanager
def answering(answer: bytes, context: ssl.SSLContext | None = None) -> Generator[str]:
    """The URL of another program, with TLS if there is a context for it."""

    class Other(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline() not in (b"\r\n", b""):
                pass
            self.wfile.write(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Other) as other:
        if context is not None:
            other.socket = context.wrap_socket(other.socket, server_side=True)
        threading.Thread(target=other.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{other.server_address[1]}"
        other.shutdown()


@pytest.mark.parametrize(
    "answer",
    [b"-ERR unknown command 'GET'\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
     b"HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\nTLS?"],
    ids=["no HTTP", "a web page", "a server with TLS"],
)  # fmt: skip
def test_another_program_at_the_port_is_recognized_at_once(answer: bytes):
    with answering(answer) as url:
        done = run({"MNEMOLOG_URL": url}, "memories")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert "is it a mnemolog server?" in done.stderr
    assert "needs https:// instead of http://" in done.stderr


@pytest.mark.skipif(which("openssl") is None, reason="openssl is not installed")
def test_a_certificate_that_is_not_trusted_is_reported_with_the_reason(tmp_path: Path):
    """No advice to use plain HTTP: the key would be sent unencrypted."""
    files = tmp_path / "certificate.pem", tmp_path / "key.pem"
    options = ["-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"]
    subprocess.run(["openssl", "req", *options, "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    with answering(b"", context) as url:
        done = run({"MNEMOLOG_URL": url.replace("http:", "https:")}, "memories")
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1), done.stderr
    assert "is not trusted: self-signed certificate" in done.stderr
    assert "http://" not in done.stderr


def test_scripts_get_a_usage_error_as_json():
    done = run({}, "recall", "x", "--limit", "0", "--json")
    assert (done.returncode, done.stderr) == (2, "")
    assert '"code": "usage"' in done.stdout
    assert "--limit must be at least 1" in done.stdout


def test_a_memory_is_forgotten_by_its_kind_and_id(recorded: Server):
    variables = {"MNEMOLOG_URL": recorded.url, "MNEMOLOG_KEY": SECRET}
    made = run(variables, "remember", "the tide turns at noon", "--project", "mistakes").stdout.split()[1]
    assert run(variables, "forget", "memory", made, "--yes").returncode == 0
    assert run(variables, "show", made).returncode == 1


def test_the_demo_ends_without_a_terminal(recorded: Server):
    done = run({"MNEMOLOG_URL": recorded.url, "MNEMOLOG_KEY": SECRET}, "demo")
    assert done.returncode in (0, 1), done.stderr
    assert "questions found their answer" in done.stdout
