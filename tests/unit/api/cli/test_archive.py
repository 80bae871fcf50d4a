"""`mnemolog admin archive` without a server: what it says, and its exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api.cli.backup import restore_at_start
from api.cli.main import application
from ingest.platform.settings import Settings


@pytest.mark.parametrize("what", ["status", "verify", "seal"])
def test_without_a_place_the_setting_is_named(monkeypatch: pytest.MonkeyPatch, what: str):
    monkeypatch.delenv("MNEMOLOG_ARCHIVE", raising=False)
    done = CliRunner().invoke(application(), ["archive", what, "--json"])
    assert done.exit_code == 2
    assert "MNEMOLOG_ARCHIVE is not set" in json.loads(done.stdout)["error"]["message"]


def test_without_a_server_it_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MNEMOLOG_ARCHIVE", "memory://nowhere")
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1")
    assert CliRunner().invoke(application(), ["archive", "--json"]).exit_code == 3


def test_what_it_cannot_do_is_a_wrong_command():
    assert CliRunner().invoke(application(), ["archive", "burn"]).exit_code == 2


@pytest.mark.parametrize("changes", [{}, {"backup": "/srv/backups", "restore": "never"}])
def test_nothing_is_looked_for_where_nothing_is_wanted(tmp_path: Path, changes: dict[str, Any]):
    told: list[str] = []
    redis_url = "redis://127.0.0.1:1"  # nobody answers there
    restore_at_start(Settings(redis_url=redis_url, data_dir=tmp_path, cache_dir=tmp_path, **changes), told.append)
    assert told == []
