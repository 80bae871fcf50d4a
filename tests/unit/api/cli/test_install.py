"""`mnemolog install` and `uninstall`: what they show, ask, write and answer."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from api.agents.files import Host
from api.cli import install

Run = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "MNEMOLOG_URL", "MNEMOLOG_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def run(home: Path) -> Run:
    app = typer.Typer()
    install.register(app)

    def invoke(*args: str) -> Result:
        return CliRunner().invoke(app, list(args))

    return invoke


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("host", Host)
def test_install_writes_once_and_uninstall_leaves_nothing(run: Run, home: Path, host: Host):
    assert run("install", host.value, "--yes").exit_code == 0
    assert files(home)
    again = run("install", host.value, "--yes")
    assert (again.exit_code, again.stdout) == (0, "nothing to change\n")
    assert run("uninstall", host.value, "--yes").exit_code == 0
    assert files(home) == []
    assert run("uninstall", host.value, "--yes").stdout == "nothing to change\n"


def test_a_dry_run_shows_and_writes_nothing(run: Run, home: Path):
    done = run("install", "cursor", "--dry-run")
    assert done.exit_code == 0
    assert '+    "mnemolog": {' in done.stdout
    assert "\x1b" not in done.stdout
    assert files(home) == []


def test_where_nobody_can_be_asked_nothing_is_written(run: Run, home: Path):
    done = run("install", "cursor")
    assert done.exit_code == 2
    assert "--yes" in done.stderr
    assert files(home) == []


def test_a_file_that_cannot_be_read_is_told_with_the_place_and_holds_up_no_other(run: Run, home: Path):
    (home / ".claude.json").write_text('{\n  "a": 1,,\n}')
    done = run("install", "claude-code", "--yes")
    assert done.exit_code == 1
    assert "line 2, column" in done.stderr.replace("\n", " ")
    assert (home / ".claude.json").read_text() == '{\n  "a": 1,,\n}'
    assert "hooks" in json.loads((home / ".claude/settings.json").read_text())


def test_a_project_has_files_of_its_own(run: Run, home: Path):
    assert run("install", "claude-code", "--yes", "--scope", "project").exit_code == 0
    assert files(home.parent) == [".claude/settings.json", ".mcp.json"]
    assert run("install", "claude-desktop", "--yes", "--scope", "project").exit_code == 2


def test_hooks_tell_of_prompts_as_long_as_the_user_wants_it(run: Run, home: Path):
    def told() -> bool:
        return "claude-code --prompts" in (home / ".claude/settings.json").read_text()

    for options, expected in ((("--prompts",), True), ((), True), (("--no-prompts",), False), ((), False)):
        assert run("install", "claude-code", "--yes", *options).exit_code == 0
        assert told() is expected
    run("install", "claude-code", "--yes", "--prompts")
    assert run("uninstall", "claude-code", "--yes").exit_code == 0
    assert files(home) == []


def test_a_host_without_hooks_cannot_be_told_of_prompts(run: Run, home: Path):
    done = run("install", "cursor", "--yes", "--prompts")
    assert done.exit_code == 2
    assert "has no hooks" in done.stderr
    assert files(home) == []


def test_json_says_what_was_written(run: Run, home: Path):
    done = run("install", "codex", "--yes", "--json")
    document = json.loads(done.stdout)
    assert (document["host"], document["scope"], document["written"], document["faults"]) == ("codex", "user", True, [])
    assert [file["path"] for file in document["files"]] == [str(home / ".codex/config.toml")]
    assert "+[mcp_servers.mnemolog]" in document["files"][0]["diff"]


def test_what_the_environment_must_have_is_told(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MNEMOLOG_SECRET", "s3cret")
    monkeypatch.setenv("MNEMOLOG_URL", "https://memory.example")
    done = run("install", "claude-code", "--yes")
    assert "needs MNEMOLOG_SECRET" in done.stderr
    assert "hooks will only spool" in done.stderr
    assert "s3cret" not in done.stdout
