"""The plugin and the extension, installed by the coding agents' own programs, which connect to a real server.

`make host-tests` installs the programs. No model is called.
"""

import json
import shutil
from pathlib import Path

from api.agents import hook
from api.agents.payloads import HOSTS
from tests.acceptance.running import SECRET, Server
from tests.ring.hosts.programs import CLAUDE, CODEX, GEMINI, NEEDS_PROGRAMS, PLUGIN, ROOT, Host

pytestmark = NEEDS_PROGRAMS


def test_claude_code_installs_the_plugin_and_connects_with_the_key(server: Server, tmp_path: Path):
    claude = Host(CLAUDE, tmp_path, MNEMOLOG_URL=server.url, MNEMOLOG_KEY=SECRET)
    for folder in (ROOT, ROOT / "api/agents/plugin"):
        claude.run("plugin", "validate", "--strict", folder)
    claude.run("plugin", "marketplace", "add", ROOT)
    claude.run("plugin", "install", PLUGIN)
    details = claude.run("plugin", "details", "mnemolog").stdout
    events = details.partition("Hooks (9)")[2].partition("(harness")[0]
    assert {event.strip() for event in events.split(",")} == HOSTS["claude-code"].events.keys()
    assert "Skills (1)  memory" in details
    assert f"{server.url}/mcp (HTTP) - ✔ Connected" in claude.run("mcp", "list").stdout
    stranger = Host(CLAUDE, tmp_path, MNEMOLOG_URL=server.url, MNEMOLOG_KEY="another")
    assert "✔" not in stranger.run("mcp", "list").stdout


def test_codex_installs_the_plugin_with_its_own_hooks_and_server(tmp_path: Path):
    (tmp_path / ".codex").mkdir()
    codex = Host(CODEX, tmp_path)
    codex.run("plugin", "marketplace", "add", ROOT)
    codex.run("plugin", "add", PLUGIN)
    (plugin,) = json.loads(codex.run("plugin", "list", "--json").stdout)["installed"]
    assert (plugin["pluginId"], plugin["enabled"]) == (PLUGIN, True)
    (entry,) = json.loads(codex.run("mcp", "list", "--json").stdout)
    assert (entry["name"], entry["transport"]["command"], *entry["transport"]["args"]) == (
        "mnemolog",
        "mnemolog",
        "mcp",
    )
    messages = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "tests", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(tmp_path)]}},
    ]
    with codex.start("app-server") as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write("".join(json.dumps(message) + "\n" for message in messages))
        server.stdin.flush()
        answers = (json.loads(line) for line in server.stdout)
        (listed,) = next(answer["result"]["data"] for answer in answers if answer.get("id") == 2)
    hooks = {shown["eventName"].lower(): shown["command"] for shown in listed["hooks"]}
    assert hooks.keys() == {event.lower() for event in HOSTS["codex"].events}
    (command,) = set(hooks.values())
    installed = Path(command.split('"')[1])
    assert command.endswith(" codex")
    assert installed.is_relative_to(tmp_path)
    assert installed.read_bytes() == Path(hook.__file__).read_bytes()


def test_gemini_cli_installs_the_extension_and_connects_with_the_key(server: Server, tmp_path: Path):
    home, extension = tmp_path / "home", tmp_path / "extension"
    for name in ("hooks", "api/agents"):  # of a clone, what the extension names
        shutil.copytree(ROOT / name, extension / name)
    shutil.copy(ROOT / "gemini-extension.json", extension)
    (home / ".gemini").mkdir(parents=True)
    (home / ".gemini/settings.json").write_text('{"security": {"folderTrust": {"enabled": false}}}')
    gemini = Host(GEMINI, home, MNEMOLOG_URL=server.url, MNEMOLOG_KEY=SECRET)
    gemini.run("extensions", "validate", extension)
    gemini.run("extensions", "install", "--consent", "--skip-settings", extension)
    # without a terminal it prints to stderr
    assert "api/agents/plugin/skills/memory/SKILL.md" in gemini.run("extensions", "list").stderr
    assert f"{server.url}/mcp (http) - Connected" in gemini.run("mcp", "list").stderr
    stranger = Host(GEMINI, home, MNEMOLOG_URL=server.url, MNEMOLOG_KEY="another")
    assert "- Connected" not in stranger.run("mcp", "list").stderr
