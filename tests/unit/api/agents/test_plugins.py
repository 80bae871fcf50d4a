"""The plugin for Claude Code: it has the version, hooks, server and rules of the package."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.agents import hook, recording
from api.agents.entries import HOOK_TIMEOUT_S, with_hooks
from api.agents.payloads import SERVER
from api.agents.rules import rules

AGENTS = Path(hook.__file__).parent
PLUGIN = AGENTS / "plugin"


def read(name: str) -> dict[str, Any]:
    return json.loads((PLUGIN / name).read_text())


def test_the_manifest_has_the_version_of_the_package():
    project = tomllib.loads((AGENTS.parents[1] / "pyproject.toml").read_text())["project"]
    manifest = read(".claude-plugin/plugin.json")
    assert (manifest["name"], manifest["version"]) == (project["name"], project["version"])


def test_the_plugin_has_the_hooks_that_install_writes():
    command = 'python3 -I -S "${CLAUDE_PLUGIN_ROOT}/hooks/hook.py" claude-code'
    assert read("hooks/hooks.json")["hooks"] == with_hooks({}, command)["hooks"]
    assert f'"timeout": {HOOK_TIMEOUT_S}' in (PLUGIN / "hooks/hooks.json").read_text()


@pytest.mark.parametrize("name", ["hook.py", "payloads.py", "recording.py"])
def test_the_plugin_runs_the_same_hook(name: str):
    assert (PLUGIN / "hooks" / name).read_bytes() == (AGENTS / name).read_bytes()


def test_the_server_is_reached_where_the_hooks_send_to():
    server = read(".mcp.json")["mcpServers"][SERVER]
    assert server["url"] == "${MNEMOLOG_URL:-http://127.0.0.1:3111}/mcp"
    assert f"mcp__plugin_mnemolog_{SERVER}__" in recording.OWN_TOOLS


def test_the_skill_says_what_it_is_for():
    _, front, _ = (PLUGIN / "skills/memory/SKILL.md").read_text().split("---\n", 2)
    assert yaml.safe_load(front) == {"name": "memory", "description": rules().description}
