"""The conformance kit on mnemolog, and on a small memory with a fault for each check: a check that cannot fail is
worth nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import simple_memory
from ports import free_port, free_ports
from simple_memory import ADAPTER, FAULTS

from tools.conformance.checks import CHECKS, Failed
from tools.conformance.memory import Memory, eventually

KIT = (sys.executable, "-m", "tools.conformance", "--json")
ROOT = Path(__file__).parents[2]
DIALECT_PORTS = ("AGENTD_PORT", "AGENT_MEMORY_PORT", "MEMEX_PORT", "MEMEX_MCP_PORT")


def verdicts(*options: str) -> tuple[int, dict[str, str]]:
    done = subprocess.run([*KIT, *options], cwd=ROOT, capture_output=True, text=True, timeout=880)
    assert done.stdout, done.stderr
    return done.returncode, {name: verdict for name, (verdict, _) in json.loads(done.stdout).items()}


def adapter(fault: str, **changes: str) -> Mapping[str, Any]:
    command = f"{sys.executable} {simple_memory.__file__} {{port}} {{folder}} '{fault}'"
    return {**ADAPTER, "command": command, **changes}


def failure(fault: str, check: str, folder: Path) -> str:
    """Why the memory fails a check; empty if it passes."""
    folder.mkdir()
    memory = Memory(adapter(fault), folder, _url())
    try:
        memory.start()
        assert CHECKS[check](memory)
    except (Failed, OSError, RuntimeError) as error:
        return str(error)
    finally:
        memory.kill()
    return ""


def _url() -> str:
    """An address for a memory that is killed and started again: no outgoing connection takes its port meanwhile."""
    return f"http://127.0.0.1:{free_port()}"


@pytest.mark.timeout(900)  # it starts the server a dozen times
def test_mnemolog_passes_every_check(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MNEMOLOG_EMBEDDER", "none")  # no model to load
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for name, port in zip(DIALECT_PORTS, free_ports(len(DIALECT_PORTS)), strict=True):
        monkeypatch.setenv(f"MNEMOLOG_{name}", str(port))
    code, results = verdicts("--adapter", "mnemolog", "--url", _url())
    assert (code, results) == (0, dict.fromkeys(CHECKS, "pass"))


@pytest.mark.parametrize("fault", ["", *FAULTS])
def test_a_memory_with_a_fault_fails_the_check_of_that_promise(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(eventually, "__defaults__", (2.0,))
    failures = {name: failure(fault, name, tmp_path / str(number)) for number, name in enumerate(CHECKS)}
    failed = {name for name, reason in failures.items() if reason}
    assert FAULTS.get(fault) in {*failed, None}, failures
    expected = {*CHECKS} if fault in ("loses", "races") else {FAULTS[fault]} if fault else set[str]()
    assert failed <= expected, failures
