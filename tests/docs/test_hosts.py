"""The page of every host shows what `mnemolog install` writes for it: these files with these entries, and no others.

The commands of a page are run in an empty home folder and an empty project. Left open: what a page
says of the host itself.
"""

import json
import re
import shlex
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from api.agents import hook, recording, rules
from api.agents.files import Host, System
from api.agents.payloads import HOSTS, HookHost
from api.cli import install
from tests.support.pages import PAGES, ROOT, blocks

FOLDER = ROOT / "docs/hosts"
OVERVIEW = (ROOT / "docs/agents.md").read_text()
PAGE = {host: (FOLDER / f"{host.value}.md").read_text() for host in Host}
KINDS = ("hooks", "MCP server", "rules")
FORMATS: dict[str, Callable[[str], Any]] = {"json": json.loads, "toml": tomllib.loads, "markdown": str.strip}

Run = Callable[[str, str], None]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path / "project"


@pytest.fixture
def run(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Run:
    """Runs the commands of a page's shell blocks that begin so, on Linux or what the test is given as `platform`."""
    for variable in ("MNEMOLOG_URL", "MNEMOLOG_PORT"):
        monkeypatch.delenv(variable, raising=False)
    for folder in (home, project):
        folder.mkdir()
    platform = getattr(request, "param", "linux")
    monkeypatch.setattr(install, "_system", lambda: System(home, project, {}, platform))
    app = typer.Typer()
    install.register(app)

    def invoke(page: str, command: str) -> None:
        lines = [line for block in blocks(page) if block.language == "sh" for line in block.text.splitlines()]
        found = [words for line in lines if (words := shlex.split(line, comments=True))[:2] == ["mnemolog", command]]
        assert found
        for words in found:
            assert CliRunner().invoke(app, [*words[1:], "--yes"]).exit_code == 0

    return invoke


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the table in a section of a page, without its head; none where there is no such section."""
    section = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^\|(.*)\|$", section[1] if section else "", re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines][2:]


def named(cell: str) -> set[str]:
    """What stands in backticks."""
    return set(re.findall(r"`([^`]+)`", cell))


def files_of(host: Host) -> list[tuple[list[str], set[str], set[str]]]:
    """What a page says which files are for, and the files of the user and of the project."""
    return [(what.split(", "), named(user), named(project)) for what, user, project in rows(PAGE[host], "Files")]


def written(home: Path, project: Path) -> dict[str, str]:
    """The text of every file in both folders, by its name on a page; what differs between installations is replaced."""
    program = Path(sys.executable)
    stands_for = {
        str(Path(hook.__file__).resolve()): "HOOK",
        str(program.with_name("mnemolog")): "MNEMOLOG",
        str(program): "PYTHON",
        str(home): "HOME",
        rules.rules().body: "…\n",
    }
    found: dict[str, str] = {}
    for folder, prefix in ((home, "~/"), (project, "")):
        for path in folder.rglob("*"):
            if path.is_file():
                text = path.read_text()
                for one, placeholder in stands_for.items():
                    text = text.replace(one, placeholder)
                name = f"{prefix}{path.relative_to(folder).as_posix()}"
                found[name] = re.sub("(?<=<!-- /mnemolog )[0-9a-f]{8}", "…", text)
    return found


def test_every_host_has_a_page_and_every_page_a_host():
    assert {path.stem for path in FOLDER.glob("*.md")} == {host.value for host in Host}


@pytest.mark.parametrize("host", Host)
def test_a_page_names_the_files_that_are_written_and_no_others(host: Host, run: Run, home: Path, project: Path):
    run(PAGE[host], "install")
    of_the_user = {name for _, user, _ in files_of(host) for name in user}
    of_the_project = {name for _, _, project in files_of(host) for name in project}
    assert all(name.startswith("~/") for name in of_the_user)
    assert of_the_user | of_the_project == set(written(home, project))


@pytest.mark.parametrize("host", Host)
def test_a_page_shows_every_file_as_it_is_written(host: Host, run: Run, home: Path, project: Path):
    """The layout of JSON and TOML is left open: a page has a line for each hook."""
    run(PAGE[host], "install")
    shown = [
        (name, block)
        for block in blocks(PAGE[host], host.value)
        if block.kind == "written"
        for name in block.mark.removeprefix("written: ").split(", ")
    ]
    found = written(home, project)
    assert sorted(name for name, _ in shown) == sorted(found)
    for name, block in shown:
        value = FORMATS[block.language]
        assert value(block.text) == value(found[name]), f"{name}: {block}"


@pytest.mark.parametrize("host", Host)
def test_the_commands_of_a_page_take_out_what_its_commands_wrote(host: Host, run: Run, home: Path, project: Path):
    run(PAGE[host], "install")
    run(PAGE[host], "uninstall")
    assert written(home, project) == {}


@pytest.mark.parametrize("run", ["darwin", "win32"], indirect=True)
@pytest.mark.parametrize("host", Host)
def test_a_page_names_the_files_that_are_elsewhere_on_another_platform(
    host: Host, run: Run, home: Path, project: Path, request: pytest.FixtureRequest
):
    run(PAGE[host], "install")
    usual = {name for _, user, project in files_of(host) for name in user | project}
    expected = {
        name.replace("~/AppData/Roaming", "%APPDATA%").replace("/", "\\") if "AppData" in name else name
        for name in written(home, project).keys() - usual
    }
    platform = {"darwin": "macOS", "win32": "Windows"}[request.node.callspec.params["run"]]
    elsewhere = {name: named(files) for name, files in rows(PAGE[host], "Files on macOS and Windows")}
    assert elsewhere.get(platform, set()) == expected


FAILED = {"error": {"message": "no such file"}}
"""What a tool answers in a host that tells failures and successes by one event."""


def recorded(host: HookHost, event: str) -> set[str]:
    """What becomes of an event of a host: kinds of observations, or `session started`."""
    said = dict.fromkeys(("prompt", "text", "prompt_response", "last_assistant_message"), "Because.")
    payload = {"hook_event_name": event, "session_id": "s-1", "conversation_id": "s-1", "tool_name": "Bash", **said}
    facts = {"project": "shop", "occurred_at": "2026-01-31T12:00:00.000Z", "event_id": "fresh"}
    commands = [
        recording.command_of(host.event({**payload, "tool_response": response}), **facts)
        for response in ({}, *([FAILED] if host.events[event] == "PostToolUse" else []))
    ]
    return {command.get("kind") or f"session {command['status']}" for command in commands if command}


@pytest.mark.parametrize("host", Host)
def test_a_page_says_what_each_hook_records_and_at_which_the_agent_is_told_something(host: Host):
    shown = {
        event.strip("`"): (named(becomes) | set(re.findall(r"session \w+", becomes)), bool(told))
        for event, becomes, told in rows(PAGE[host], "Hooks")
    }
    known = HOSTS.get(host.value)
    events = known.events.items() if known else ()
    assert shown == {event: (recorded(known, event), ours in known.text_events) for event, ours in events if known}


def test_the_overview_says_of_every_host_what_its_page_says():
    shown = {cells[0]: [set(filter(None, cell.split(", "))) for cell in cells[1:]] for cells in rows(OVERVIEW, "Hosts")}
    expected: dict[str, list[set[str]]] = {}
    for host in Host:
        title = PAGE[host].partition("\n")[0].removeprefix("# ")
        expected[f"[{title}](hosts/{host.value}.md)"] = [
            {
                scope
                for what, *files in files_of(host)
                if kind in what
                for scope, names in zip(("user", "project"), files, strict=True)
                if names
            }
            for kind in KINDS
        ]
    assert shown == expected


def test_the_overview_shows_the_rules():
    assert [block.text for block in blocks(OVERVIEW) if block.kind == "written"] == [rules.rules().body]


def test_only_the_pages_of_hosts_and_the_overview_show_what_is_written():
    """Elsewhere nothing would compare it."""
    having = {path for path in PAGES if any(block.kind == "written" for block in blocks(path.read_text()))}
    assert having == {*FOLDER.glob("*.md"), ROOT / "docs/agents.md"}
