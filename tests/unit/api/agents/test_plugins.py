"""The plugin for Claude Code and Codex, and the extension for Gemini CLI, have what the package has.

`tests/ring/hosts/test_host_programs.py` has the programs of these hosts install them.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.agents import hook, recording
from api.agents.entries import with_hooks
from api.agents.payloads import HOSTS, SERVER
from api.agents.rules import rules
from ingest.platform.addresses import KEY_VARIABLES

AGENTS = Path(hook.__file__).parent
PLUGIN, ROOT = AGENTS / "plugin", AGENTS.parents[1]
CLAUDE, CODEX = PLUGIN / ".claude-plugin/plugin.json", AGENTS / ".codex-plugin/plugin.json"
GEMINI = ROOT / "gemini-extension.json"
HOOK_FILES = ("checkouts.py", "hook.py", "payloads.py", "recording.py", "sending.py", "spools.py")
HOOKS = {
    "claude-code": (PLUGIN / "hooks/hooks.json", "${CLAUDE_PLUGIN_ROOT}/hooks/hook.py"),
    "codex": (PLUGIN / "hooks/codex.json", "${PLUGIN_ROOT}/hook.py"),
    "gemini-cli": (ROOT / "hooks/hooks.json", "${extensionPath}/api/agents/hook.py"),
}


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


@pytest.mark.parametrize("path", [CLAUDE, CODEX, GEMINI], ids=lambda path: path.parent.name)
def test_a_manifest_has_the_name_and_the_version_of_the_package(path: Path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    manifest = read(path)
    assert (manifest["name"], manifest["version"]) == (project["name"], project["version"])
    assert manifest["description"] == read(CLAUDE)["description"]


def test_both_marketplaces_offer_the_plugin():
    """Codex copies no links, and so gets the folder that has the files of the hook."""
    claude, codex = (read(ROOT / path / "marketplace.json") for path in (".claude-plugin", ".agents/plugins"))
    (of_claude,), (of_codex,) = claude["plugins"], codex["plugins"]
    assert {claude["name"], codex["name"], of_claude["name"], of_codex["name"]} == {"mnemolog"}
    assert (ROOT / of_claude["source"]).samefile(PLUGIN)
    assert (ROOT / of_codex["source"]["path"]).samefile(AGENTS)
    assert not any((AGENTS / name).is_symlink() for name in HOOK_FILES)
    assert of_claude["description"] == read(CLAUDE)["description"]


@pytest.mark.parametrize("host", HOOKS)
def test_the_hooks_of_a_host_are_those_that_install_writes(host: str):
    path, script = HOOKS[host]
    assert read(path)["hooks"] == with_hooks({}, f'python3 -I -S "{script}" {host}', host=HOSTS[host])["hooks"]
    existing = script.replace("${extensionPath}", str(ROOT)).replace("${PLUGIN_ROOT}", str(AGENTS))
    assert Path(existing.replace("${CLAUDE_PLUGIN_ROOT}", str(PLUGIN))).is_file()


@pytest.mark.parametrize("name", HOOK_FILES)
def test_the_plugin_runs_the_same_hook(name: str):
    assert (PLUGIN / "hooks" / name).read_bytes() == (AGENTS / name).read_bytes()


def test_the_server_is_reached_where_the_hooks_send_to_and_with_their_key():
    claude, gemini = read(PLUGIN / ".mcp.json")["mcpServers"][SERVER], read(GEMINI)["mcpServers"][SERVER]
    assert claude["url"] == gemini["httpUrl"] == "${MNEMOLOG_URL:-http://127.0.0.1:3111}/mcp"
    assert claude["headers"] == gemini["headers"] == {"Authorization": "Bearer ${MNEMOLOG_KEY:-}"}
    assert f"mcp__plugin_mnemolog_{SERVER}__" in recording.OWN_TOOLS


def test_the_extension_declares_the_variables_that_it_reads():
    """Gemini CLI passes no others on."""
    manifest = read(GEMINI)
    declared = {setting["envVar"]: setting.get("sensitive", False) for setting in manifest["settings"]}
    assert declared == {"MNEMOLOG_URL": False, "MNEMOLOG_KEY": True}
    assert set(re.findall(r"\$\{(\w+):-", json.dumps(manifest["mcpServers"]))) == declared.keys()


def test_codex_starts_the_bridge_with_the_variables_that_it_reads():
    """Codex passes no others on. It fails a server over HTTP whose key variable is not set."""
    manifest = read(CODEX)
    assert {name: (AGENTS / manifest[name]).exists() for name in ("skills", "hooks")} == {"skills": True, "hooks": True}
    server = manifest["mcpServers"][SERVER]
    assert (server["command"], server["args"]) == ("mnemolog", ["mcp"])
    assert {"MNEMOLOG_URL", *KEY_VARIABLES} <= {*server["env_vars"]}


def test_the_skill_says_what_it_is_for_and_is_the_context_of_the_extension():
    skill = PLUGIN / "skills/memory/SKILL.md"
    _, front, _ = skill.read_text().split("---\n", 2)
    assert yaml.safe_load(front) == {"name": "memory", "description": rules().description}
    assert (ROOT / read(GEMINI)["contextFileName"]).samefile(skill)
