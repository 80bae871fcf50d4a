"""The readiness probe of the Kubernetes manifest, as the kubelet runs it: a command whose exit status counts."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.acceptance.running import Server

MANIFEST = Path(__file__).parents[2] / "deploy/kubernetes/api.yaml"


def probe(server: Server, secret: str) -> int:
    """The exit status of the command, in an API pod of this server."""
    deployment: dict[str, Any] = next(yaml.safe_load_all(MANIFEST.read_text()))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    program, option, code = container["readinessProbe"]["exec"]["command"]
    assert program == "python"
    here = code.replace("http://127.0.0.1:3111", server.url)
    environment = {**os.environ, "MNEMOLOG_SECRET": secret}
    return subprocess.run([sys.executable, option, here], env=environment, capture_output=True, check=False).returncode


def test_a_server_that_works_is_ready(server: Server):
    assert probe(server, server.secret) == 0


def test_a_server_that_does_not_answer_the_probe_is_not(server: Server):
    assert probe(server, "another secret") != 0
