"""`mnemolog install` and `uninstall`: what they show, ask, write and answer."""

import json
import os
import plistlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from irregular import KINDS, put
from typer.testing import CliRunner, Result

from api.agents.files import Host, System
from api.agents.rules import with_file
from api.cli import install

Run = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "MNEMOLOG_URL", "MNEMOLOG_PORT", "MNEMOLOG_KEY"):
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


def test_nothing_is_written_that_names_a_path_in_the_cache_of_uv(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "prefix", str(home / ".cache/uv/archive-v0/aB3"))
    done = run("install", "cursor", "--yes")
    assert (done.exit_code, "uv tool install mnemolog" in done.output) == (2, True), done.output
    assert list(home.iterdir()) == []


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_only_regular_files_are_written(run: Run, home: Path, kind: str, linked: bool, command: str):
    settings = home / ".claude/settings.json"
    thing = put(kind, home / "thing" if linked else settings)
    if linked:
        settings.parent.mkdir()
        settings.symlink_to(thing)
    mode = thing.lstat().st_mode
    done = run(command, "claude-code", "--yes")
    assert (done.exit_code, done.stderr.replace("\n", "").count("not a regular file")) == (1, 1)
    assert thing.lstat().st_mode == mode
    assert [path.name for path in settings.parent.iterdir() if path.suffix != ""] == ["settings.json"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("linked", ["file", "folder", "new file"])
def test_a_link_to_a_file_of_another_user_is_not_followed(run: Run, home: Path, tmp_path: Path, linked: str):
    others = tmp_path / "others"
    others.mkdir()
    os.chown(others, 12345, 12345)
    (home / ".claude").mkdir() if linked != "folder" else (home / ".claude").symlink_to(others)
    if linked != "folder":
        (home / ".claude/settings.json").symlink_to(others / "settings.json")
    if linked == "file":
        (others / "settings.json").write_text("{}")
        os.chown(others / "settings.json", 12345, 12345)
    before = {path: path.read_bytes() for path in others.iterdir()}
    done = run("install", "claude-code", "--yes")
    assert (done.exit_code, "belongs to another user" in done.stderr.replace("\n", "")) == (1, True)
    assert {path: path.read_bytes() for path in others.iterdir()} == before


PROJECT_FILES = {
    Host.CLAUDE_CODE: [".claude/settings.json", ".claude/skills/mnemolog-memory/SKILL.md", ".mcp.json"],
    Host.CURSOR: [".cursor/hooks.json", ".cursor/mcp.json", ".cursor/rules/mnemolog.mdc"],
    Host.CODEX: [".codex/config.toml", ".codex/hooks.json", "AGENTS.md"],
    Host.VSCODE: [".github/instructions/mnemolog.instructions.md", ".vscode/mcp.json"],
    Host.GEMINI_CLI: [".gemini/settings.json", "GEMINI.md"],
    Host.OPENCODE: [".opencode/mnemolog.md", "opencode.json"],
    Host.WINDSURF: [".windsurf/rules/mnemolog.md"],
    Host.ZED: [".zed/settings.json", "AGENTS.md"],
}


@pytest.mark.parametrize("host", PROJECT_FILES)
def test_a_project_has_files_of_its_own(run: Run, home: Path, host: Host):
    assert run("install", host.value, "--yes", "--scope", "project").exit_code == 0
    assert files(home.parent) == PROJECT_FILES[host]
    again = run("install", host.value, "--yes", "--scope", "project")
    assert (again.exit_code, again.stdout) == (0, "nothing to change\n")
    assert run("uninstall", host.value, "--yes", "--scope", "project").exit_code == 0
    assert files(home.parent) == []
    assert not (home.parent / ".claude/skills/mnemolog-memory").exists()


def test_a_host_without_settings_of_a_project_says_so(run: Run):
    assert run("install", "claude-desktop", "--yes", "--scope", "project").exit_code == 2


@pytest.mark.parametrize("host", [Host.CURSOR, Host.VSCODE])
def test_a_host_that_keeps_rules_of_a_user_in_no_file_is_named(run: Run, host: Host):
    assert "no rules written" in run("install", host.value, "--yes").stderr
    assert "rules" not in run("install", host.value, "--yes", "--scope", "project").stderr
    assert "rules" not in run("install", host.value, "--yes", "--no-rules").stderr


@pytest.mark.parametrize("host", PROJECT_FILES)
def test_rules_can_be_left_out(run: Run, home: Path, host: Host):
    done = run("install", host.value, "--yes", "--scope", "project", "--no-rules")
    assert done.exit_code == (2 if host is Host.WINDSURF else 0), "Windsurf has nothing else for a project"
    rules = {"AGENTS.md", "GEMINI.md", *(name for name in PROJECT_FILES[host] if "mnemolog" in name)}
    assert files(home.parent) == [name for name in PROJECT_FILES[host] if name not in rules]


@pytest.mark.parametrize("host", [Host.CLAUDE_CODE, Host.CURSOR, Host.VSCODE, Host.OPENCODE, Host.WINDSURF])
def test_rules_that_somebody_else_wrote_or_changed_stay_and_the_rest_is_installed(run: Run, home: Path, host: Host):
    """The text of the file is told to nobody; uninstalling passes over another's and tells of what was changed."""
    (name,) = (name for name in PROJECT_FILES[host] if "mnemolog" in name)
    file = home.parent / name
    file.parent.mkdir(parents=True)
    file.write_bytes(b"mine\r\n")
    options = (host.value, "--yes", "--scope", "project")
    done = run("install", *options)
    assert done.exit_code == 1
    assert f"{name}: it was not written by mnemolog" in done.stderr.replace("\n", "")
    assert files(home.parent) == PROJECT_FILES[host]
    assert run("uninstall", *options).exit_code == 0
    assert (files(home.parent), file.read_bytes()) == ([name], b"mine\r\n")
    file.unlink()
    run("install", *options)
    changed = file.read_bytes().replace(b"context", b"nothing")
    file.write_bytes(changed)
    for command in ("install", "uninstall"):
        done = run(command, *options)
        assert done.exit_code == 1
        assert "was changed after installation" in done.stderr.replace("\n", "")
        assert file.read_bytes() == changed


RULES_OF_A_USER = {
    "codex": ".codex/AGENTS.md",
    "gemini-cli": ".gemini/GEMINI.md",
    "windsurf": ".codeium/windsurf/memories/global_rules.md",
    "zed": ".config/zed/AGENTS.md",
}


@pytest.mark.parametrize("host", RULES_OF_A_USER)
@pytest.mark.parametrize("text", [b"", b"# Ours\n", b"# Ours\r\n\r\nTests first.", b"\xef\xbb\xbf# Ours\r\n"])
def test_what_a_user_tells_a_host_stays_to_the_byte(run: Run, home: Path, host: str, text: bytes):
    """Also what is written before and behind our block in the meantime."""
    file = home / RULES_OF_A_USER[host]
    file.parent.mkdir(parents=True)
    file.write_bytes(text)
    for _ in range(2):
        assert run("install", host, "--yes").exit_code == 0
        assert file.read_bytes().startswith(text)
        assert file.read_bytes().count(b"<!-- mnemolog -->") == 1
    assert run("uninstall", host, "--yes").exit_code == 0
    assert (files(home), file.read_bytes()) == ([RULES_OF_A_USER[host]], text)
    run("install", host, "--yes")
    file.write_bytes(file.read_bytes() + b"More.\n")
    assert run("uninstall", host, "--yes").exit_code == 0
    assert file.read_bytes() == text + b"More.\n"


WITH_COMMENTS = {
    "cursor": (".cursor/hooks.json", '"hooks": {"stop": [{"command": "./audit.sh"}]}, "version": 1'),
    "gemini-cli": (".gemini/settings.json", '"hooks": {"AfterTool": [{"matcher": "x", "hooks": []}]}'),
    "opencode": (".config/opencode/opencode.jsonc", '"instructions": ["a.md"], "mcp": {"a": {"type": "remote"}}'),
    "windsurf": (".codeium/windsurf/mcp_config.json", '"mcpServers": {"a": {"serverUrl": "http://a"}}'),
    "zed": (".config/zed/settings.json", '"context_servers": {"a": {"url": "http://a"}}'),
}


@pytest.mark.parametrize("host", WITH_COMMENTS)
def test_settings_with_comments_keep_them_and_the_entries_of_others(run: Run, home: Path, host: str):
    name, theirs = WITH_COMMENTS[host]
    before = "// mine\n{\n  " + theirs + ', // why\n  "theme": "dark", /* and */\n}\n'
    file = home / name
    file.parent.mkdir(parents=True)
    file.write_text(before)
    assert run("install", host, "--yes").exit_code == 0
    written = file.read_text()
    assert "mnemolog" in written or "api/agents/hook.py" in written
    for kept in ("// mine", "// why", "/* and */", '"theme": "dark"'):
        assert kept in written
    file.write_text(written.replace('"dark"', '"light"'))  # so that no copy is put back
    assert run("uninstall", host, "--yes").exit_code == 0
    left = file.read_text()
    assert "mnemolog" not in left
    assert "api/agents/hook.py" not in left
    for kept in ("// mine", "// why", "/* and */", '"theme": "light"', *theirs.split('"')[1::2]):
        assert kept in left
    assert run("install", host, "--yes").exit_code == 0
    assert run("uninstall", host, "--yes").exit_code == 0
    assert file.read_text() == left


def test_an_entry_of_our_name_that_somebody_else_wrote_stays_and_the_rest_is_installed(run: Run, home: Path):
    file = home / ".config/opencode/opencode.json"
    file.parent.mkdir(parents=True)
    theirs = '{"mcp": {"mnemolog": {"type": "remote", "url": "http://127.0.0.1:8080/sse"}}}'
    file.write_text(theirs)
    done = run("install", "opencode", "--yes")
    assert done.exit_code == 1
    assert "already exists" in done.stderr.replace("\n", " ")
    assert file.read_text() == theirs
    assert run("uninstall", "opencode", "--yes").exit_code == 0
    assert (files(home), file.read_text()) == ([".config/opencode/opencode.json"], theirs)


def entry_of(home: Path, name: str = ".claude.json", section: str = "mcpServers") -> dict[str, Any]:
    return json.loads((home / name).read_text())[section]["mnemolog"]


def test_a_host_that_speaks_http_gets_the_address_of_the_server(run: Run, home: Path):
    run("install", "claude-code", "--yes", "--url", "http://127.0.0.1:4000")
    assert entry_of(home) == {"type": "http", "url": "http://127.0.0.1:4000/mcp"}
    run("install", "gemini-cli", "--yes")
    assert entry_of(home, ".gemini/settings.json") == {"httpUrl": "http://127.0.0.1:3111/mcp"}


def test_the_host_starts_the_bridge_if_the_user_says_so_or_a_key_is_stored(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
):
    run("install", "claude-code", "--yes", "--stdio")
    assert entry_of(home)["args"] == ["mcp"]
    assert "nothing to change" in run("install", "claude-code", "--dry-run").stdout
    run("install", "claude-code", "--yes", "--http")
    assert "url" in entry_of(home)
    monkeypatch.setenv("MNEMOLOG_KEY", "k")
    run("install", "claude-code", "--yes")
    assert entry_of(home)["args"] == ["mcp"]
    assert "k" not in entry_of(home).get("env", {}).values()


@pytest.mark.parametrize("form", ["--stdio", "--http"])
def test_either_form_is_removed_to_the_original_file(run: Run, home: Path, form: str):
    before = '{"theme":"dark",\n   "mcpServers":{}}'
    (home / ".claude.json").write_text(before)
    run("install", "claude-code", "--yes", form)
    assert run("uninstall", "claude-code", "--yes").exit_code == 0
    assert (home / ".claude.json").read_text() == before


def test_an_address_with_the_key_of_its_user_is_left_unchanged(run: Run, home: Path):
    theirs = json.dumps({"mcpServers": {"mnemolog": {"url": "https://a.example/mcp", "headers": {"X-Key": "k"}}}})
    (home / ".claude.json").write_text(theirs)
    for command in ("install", "uninstall"):
        run(command, "claude-code", "--yes")
        assert (home / ".claude.json").read_text() == theirs


def test_a_command_with_arguments_of_its_user_stays_a_command(run: Run, home: Path):
    entry = {"type": "stdio", "command": "mnemolog", "args": ["mcp", "--profile", "memex"]}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {"mnemolog": entry}}))
    for option in ([], ["--stdio"], ["--http"]):
        run("install", "claude-code", "--yes", *option)
        assert entry_of(home)["args"] == ["mcp", "--profile", "memex"]


def test_one_block_serves_all_hosts_that_read_the_same_file(run: Run, home: Path):
    for host in ("codex", "zed"):
        assert run("install", host, "--yes", "--scope", "project").exit_code == 0
    assert (home.parent / "AGENTS.md").read_text().count("<!-- mnemolog -->") == 1


def test_windsurf_is_said_to_have_no_servers_of_a_project(run: Run):
    assert "without --scope" in run("install", "windsurf", "--yes", "--scope", "project").stderr.replace("\n", " ")


def test_codex_users_are_told_to_trust_the_hooks(run: Run):
    assert "run /hooks" in run("install", "codex", "--yes").stderr.replace("\n", " ")


def test_rules_of_an_older_release_are_brought_up_to_date(run: Run, home: Path):
    file = home / ".claude/skills/mnemolog-memory/SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(with_file("", "---\nname: mnemolog-memory\n---\nAn older text.\n"))
    assert run("install", "claude-code", "--yes").exit_code == 0
    assert "An older text" not in file.read_text()
    assert "`recall`" in file.read_text()


@pytest.mark.parametrize("host", ["claude-code", "codex", "gemini-cli"])
def test_hooks_tell_of_prompts_as_long_as_the_user_wants_it(run: Run, home: Path, host: str):
    settings = {"claude-code": ".claude/settings.json", "codex": ".codex/hooks.json"}.get(host, ".gemini/settings.json")

    def told() -> bool:
        return f"{host} --prompts" in (home / settings).read_text()

    for options, expected in ((("--prompts",), True), ((), True), (("--no-prompts",), False), ((), False)):
        assert run("install", host, "--yes", *options).exit_code == 0
        assert told() is expected
    run("install", host, "--yes", "--prompts")
    assert run("uninstall", host, "--yes").exit_code == 0
    assert files(home) == []


@pytest.mark.parametrize("host", ["cursor", "vscode"])
def test_a_host_that_takes_no_text_at_a_prompt_cannot_be_told_of_prompts(run: Run, home: Path, host: str):
    done = run("install", host, "--yes", "--prompts")
    assert done.exit_code == 2
    assert "no prompt hooks" in done.stderr
    assert files(home) == []


def hook_lines(home: Path) -> list[str]:
    hooks = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    return [hook["command"] for groups in hooks.values() for group in groups for hook in group["hooks"]]


def test_every_hook_starts_the_server_until_the_user_says_no(run: Run, home: Path):
    for options, starts in ((("--start", "--prompts"), True), ((), True), (("--no-start",), False), ((), False)):
        assert run("install", "claude-code", "--yes", *options).exit_code == 0
        assert {"--start" in line for line in hook_lines(home)} == {starts}
        assert sum("--prompts" in line for line in hook_lines(home)) == 1
    run("install", "claude-code", "--yes", "--start")
    assert run("uninstall", "claude-code", "--yes").exit_code == 0
    assert files(home) == []


@pytest.mark.parametrize("existing", ['{"hooks":{}}', '{\n  "model": "opus"\n}'])
def test_uninstall_restores_the_original_after_start_was_chosen(run: Run, home: Path, existing: str):
    file = home / ".claude/settings.json"
    file.parent.mkdir()
    file.write_text(existing)
    run("install", "claude-code", "--yes", "--start")
    run("uninstall", "claude-code", "--yes")
    assert (file.read_text(), files(home)) == (existing, [".claude/settings.json"])


@pytest.mark.parametrize(
    ("arguments", "variables", "reason"),
    [
        (("vscode", "--start"), {}, "coding agents with hooks"),
        (("claude-code", "--start"), {"MNEMOLOG_URL": "https://memory.example"}, "not https://memory.example"),
        (("claude-code", "--start"), {"REDIS_URL": "redis://h"}, "not REDIS_URL"),
        (("--service",), {"MNEMOLOG_URL": "http://10.0.0.7:3111"}, "not http://10.0.0.7:3111"),
        ((), {}, "name an agent, or --service"),
    ],
)
def test_server_that_cannot_be_started_here_is_refused(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], variables: dict[str, str],
    reason: str,
):  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = run("install", *arguments, "--yes")
    assert (done.exit_code, reason in done.stderr) == (2, True), done.stderr
    assert files(home) == []


UNIT = ".config/systemd/user/mnemolog.service"


@pytest.fixture
def calls(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """What a stand-in for systemctl was called with; while the file `failing` exists, it fails."""
    program = tmp_path / "bin/systemctl"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n[ ! -e {tmp_path}/failing ] || {{ echo no bus >&2; exit 1; }}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "MNEMOLOG_DATA_DIR", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)

    def read() -> list[str]:
        return (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []

    return read


ENABLED, DISABLED = "--user enable --now mnemolog.service", "--user disable --now mnemolog.service"


def test_service_is_written_once_and_enabled_and_uninstall_leaves_nothing(
    run: Run, home: Path, calls: Callable[[], list[str]]
):
    assert run("install", "--service", "--dry-run").exit_code == 0
    assert (files(home), calls()) == ([], [])
    assert f"done: systemctl {ENABLED}" in run("install", "--service", "--yes").stdout
    assert (files(home), calls()) == ([UNIT], [ENABLED])
    assert "nothing to change" in run("install", "--service", "--yes").stdout
    run("install", "claude-code", "--yes")
    assert "mnemolog uninstall --service" in run("uninstall", "claude-code", "--yes").stderr
    assert files(home) == [UNIT]
    assert f"done: systemctl {DISABLED}" in run("uninstall", "--service", "--yes").stdout
    assert (files(home), calls()[-1]) == ([], DISABLED)
    assert run("uninstall", "--service", "--yes").stdout == "nothing to change\n"


def test_service_that_cannot_be_enabled_shows_the_command_and_the_reason(
    run: Run, home: Path, tmp_path: Path, calls: Callable[[], list[str]]
):
    (tmp_path / "failing").touch()
    done = run("install", "--service", "--yes")
    assert (done.exit_code, files(home)) == (0, [UNIT])
    assert f"the service is not enabled (no bus); run: systemctl {ENABLED}" in done.stderr.replace("\n", " ")
    (tmp_path / "failing").unlink()
    assert f"done: systemctl {ENABLED}" in run("install", "--service", "--yes").stdout
    (tmp_path / "bin/systemctl").unlink()
    assert "No such file" in run("install", "--service", "--yes").stderr
    assert len(calls()) == 2


@pytest.mark.parametrize("changed", [False, True])
def test_service_file_of_somebody_else_is_left_alone(
    run: Run, home: Path, calls: Callable[[], list[str]], changed: bool
):
    file = home / UNIT
    if changed:
        run("install", "--service", "--yes")
        file.write_text(theirs := file.read_text().replace("on-failure", "always"))
    else:
        file.parent.mkdir(parents=True)
        file.write_text(theirs := "[Service]\nExecStart=/opt/mnemolog up\n")
    before = calls()
    done = run("install", "--service", "--yes")
    expected = "was changed after installation" if changed else "was not written by mnemolog"
    assert (done.exit_code, expected in done.stderr.replace("\n", " ")) == (1, True)
    run("uninstall", "--service", "--yes")
    assert (file.read_text(), calls()) == (theirs, before)


def test_service_has_the_port_and_the_folders_of_the_environment(
    run: Run, home: Path, calls: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "settings"))
    monkeypatch.setenv("MNEMOLOG_DATA_DIR", '/data of "ada" at 100%')
    monkeypatch.setenv("MNEMOLOG_KEY", "s3cret")
    assert run("install", "--service", "--yes", "--url", "http://127.0.0.1:4000").exit_code == 0
    assert files(home) == ["settings/systemd/user/mnemolog.service"]
    unit = (home / files(home)[0]).read_text().splitlines()
    (variables,) = (line for line in unit if line.startswith("Environment="))
    assert r'"MNEMOLOG_DATA_DIR=/data of \"ada\" at 100%%"' in variables
    assert f'"XDG_CONFIG_HOME={home / "settings"}"' in variables
    assert '"MNEMOLOG_PORT=4000"' in variables
    assert "s3cret" not in variables
    (command,) = (line for line in unit if line.startswith("ExecStart="))
    assert command.endswith(' "up"')


def test_service_of_a_mac_is_a_launch_agent(run: Run, home: Path, calls: object, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(install, "_system", lambda: System(home, home, {}, "darwin"))
    done = run("install", "--service", "--yes")
    path = home / "Library/LaunchAgents/mnemolog.plist"
    assert f"run: launchctl load -w {path}" in done.stderr
    fields = plistlib.loads(path.read_bytes())
    assert fields["ProgramArguments"][-1] == "up"
    assert fields["EnvironmentVariables"] == {"MNEMOLOG_PORT": "3111"}
    assert (fields["RunAtLoad"], fields["KeepAlive"]) == (True, True)
    run("uninstall", "--service", "--yes")
    assert files(home) == []


def test_json_says_what_was_written(run: Run, home: Path):
    done = run("install", "codex", "--yes", "--json")
    document = json.loads(done.stdout)
    assert (document["host"], document["scope"], document["written"], document["faults"]) == ("codex", "user", True, [])
    assert [file["path"] for file in document["files"]] == [
        str(home / ".codex" / name) for name in ("hooks.json", "config.toml", "AGENTS.md")
    ]
    assert "+[mcp_servers.mnemolog]" in document["files"][1]["diff"]


def test_what_the_environment_must_have_is_told(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MNEMOLOG_SECRET", "s3cret")
    monkeypatch.setenv("MNEMOLOG_URL", "https://memory.example")
    done = run("install", "claude-code", "--yes")
    assert "needs MNEMOLOG_SECRET" in done.stderr
    assert "s3cret" not in done.stdout
