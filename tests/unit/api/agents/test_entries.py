"""Our entries come into the settings of others and go again, and nothing else changes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.agents import files
from api.agents.entries import (
    ForeignFile,
    Remote,
    ShellCommand,
    command_of,
    with_address,
    with_hooks,
    with_instruction,
    with_server,
    without_hooks,
    without_instruction,
    without_server,
)
from api.agents.payloads import CLAUDE_CODE, CODEX, CURSOR, GEMINI_CLI, HOSTS, HookHost

HOOK = files.hook_line(files.Host.CLAUDE_CODE, "")
OLDER = "/old/venv/bin/python -I -S '/old site/api/agents/hook.py' claude-code"
BRIDGE = ShellCommand("/venv/bin/mnemolog", ("mcp",))
THEIRS: dict[str, Any] = {"matcher": "Bash", "hooks": [{"type": "command", "command": "say done", "timeout": 1}]}

LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
HANDLERS: st.SearchStrategy[Any] = st.fixed_dictionaries({"type": st.just("command"), "command": st.text(max_size=20)})
FLAT: st.SearchStrategy[Any] = st.fixed_dictionaries({"command": st.text(max_size=20)})
GROUPS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"matcher": st.text(max_size=4), "hooks": st.lists(HANDLERS | VALUES, max_size=3)}
)
EVENTS = st.sampled_from([*CLAUDE_CODE.events, *CURSOR.events, *GEMINI_CLI.events, "Notification"])
HOOKS: st.SearchStrategy[Any] = st.dictionaries(
    EVENTS, st.lists(GROUPS | FLAT | VALUES, min_size=1, max_size=3), min_size=1
)
OTHERS = st.dictionaries(st.text(max_size=6).filter(lambda key: key != "hooks"), VALUES, max_size=4)
SETTINGS = OTHERS | st.tuples(OTHERS, HOOKS).map(lambda both: {**both[0], "hooks": both[1]})


HOST = st.sampled_from([*HOSTS.values()])


@given(SETTINGS, HOST)
def test_hooks_that_come_and_go_leave_the_settings_as_they_were(before: dict[str, Any], host: HookHost):
    before = {**({"version": 1} if host.flat and "hooks" in before else {}), **before}
    installed = with_hooks(before, HOOK, host=host)
    left = without_hooks(installed)
    assert {**left, "version": 1} == {**before, "version": 1} if host.flat else left == before
    assert [key for key in left if key != "version"] == [key for key in before if key != "version"]
    assert with_hooks(installed, HOOK, host=host) == installed


@given(SETTINGS, HOST)
def test_every_event_of_ours_has_our_hook_once(before: dict[str, Any], host: HookHost):
    hooks = with_hooks(before, HOOK, host=host)["hooks"]
    for event in host.events:
        assert json.dumps(hooks[event]).count(json.dumps(HOOK)) == 1


def test_every_host_has_its_own_way_to_write_a_hook():
    """Seconds and groups; milliseconds and a name to switch it off by; neither groups nor types."""
    handler = {"type": "command", "command": HOOK}
    assert with_hooks({}, HOOK, host=CODEX)["hooks"]["Stop"] == [{"hooks": [{**handler, "timeout": 5}]}]
    named = {"name": "mnemolog", **handler, "timeout": 5000}
    assert with_hooks({}, HOOK, host=GEMINI_CLI)["hooks"]["AfterTool"] == [{"matcher": "*", "hooks": [named]}]
    of_cursor = with_hooks({}, HOOK, host=CURSOR)
    assert of_cursor["version"] == 1
    assert of_cursor["hooks"]["postToolUse"] == [{"command": HOOK, "timeout": 5}]
    assert without_hooks(of_cursor) == {}


def test_a_users_hook_beside_ours_stays_where_hooks_have_no_groups():
    theirs = {"command": "./audit.sh", "failClosed": True}
    before = {"version": 1, "hooks": {"postToolUse": [theirs]}}
    installed = with_hooks(before, HOOK, host=CURSOR)
    assert installed["hooks"]["postToolUse"] == [theirs, {"command": HOOK, "timeout": 5}]
    assert without_hooks(installed) == before


def test_what_a_host_keeps_beside_its_hooks_stays():
    """An older Gemini CLI has switches among them."""
    before = {"hooks": {"enabled": True, "disabled": ["lint"]}}
    installed = with_hooks(before, HOOK, host=GEMINI_CLI)
    assert (installed["hooks"]["enabled"], installed["hooks"]["disabled"]) == (True, ["lint"])
    assert without_hooks(installed) == before


def test_a_hook_of_claude_code_that_was_migrated_becomes_that_of_its_host():
    """`gemini hooks migrate --from-claude` copies ours."""
    migrated = {"hooks": {"AfterTool": [{"hooks": [{"type": "command", "command": OLDER}]}]}}
    new = HOOK.replace("claude-code", "gemini-cli")
    (group,) = with_hooks(migrated, new, host=GEMINI_CLI)["hooks"]["AfterTool"]
    assert group["hooks"] == [{"type": "command", "command": new}]


@given(st.lists(st.text(max_size=6), max_size=3))
def test_an_instruction_that_comes_and_goes_leaves_the_others(others: list[str]):
    before: dict[str, Any] = {"instructions": others} if others else {}
    installed = with_instruction(before, "/ours/mnemolog.md")
    assert installed["instructions"] == [*others, "/ours/mnemolog.md"]
    assert with_instruction(installed, "/ours/mnemolog.md") == installed
    assert without_instruction(installed, "/ours/mnemolog.md") == before


def test_instructions_of_a_strange_shape_are_not_touched():
    with pytest.raises(ForeignFile):
        with_instruction({"instructions": "all"}, "a")
    assert without_instruction({"instructions": "all"}, "a") == {"instructions": "all"}


def test_the_hook_that_asks_for_lessons_is_installed_before_every_tool():
    (group,) = with_hooks({}, HOOK)["hooks"]["PreToolUse"]
    assert group["matcher"] == "*"
    assert group["hooks"][0]["command"] == HOOK


def commands(settings: dict[str, Any]) -> dict[str, str]:
    return {event: groups[0]["hooks"][0]["command"] for event, groups in settings["hooks"].items()}


def test_only_the_hook_at_a_prompt_is_asked_to_tell_of_prompts():
    found = commands(with_hooks({}, HOOK, prompts=True))
    assert found.pop("UserPromptSubmit") == f"{HOOK} --prompts"
    assert set(found.values()) == {HOOK}


@given(SETTINGS, st.booleans())
def test_what_the_user_chose_about_prompts_stays_until_it_is_chosen_anew(before: dict[str, Any], prompts: bool):
    installed = with_hooks(before, OLDER, prompts=prompts)
    assert with_hooks(installed, HOOK) == with_hooks(before, HOOK, prompts=prompts)
    assert with_hooks(installed, HOOK, prompts=not prompts) == with_hooks(before, HOOK, prompts=not prompts)
    assert without_hooks(installed) == before


def test_a_users_hook_beside_ours_stays_when_ours_goes():
    together = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": HOOK}, THEIRS["hooks"][0]]}]}}
    assert without_hooks(together) == {"hooks": {"Stop": [{"hooks": THEIRS["hooks"]}]}}


def test_an_older_hook_is_brought_up_to_date_where_it_stands():
    older = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": OLDER, "timeout": 9}]}, THEIRS]}}
    stop = with_hooks(older, HOOK)["hooks"]["Stop"]
    assert stop == [{"hooks": [{"type": "command", "command": HOOK, "timeout": 9}]}, THEIRS]


@pytest.mark.parametrize(
    "command", ["python hook.py claude-code", "/x/api/agents/hook.py", "echo 'unbalanced", "say claude-code", ""]
)
def test_what_only_looks_like_our_hook_stays(command: str):
    before = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}
    assert without_hooks(before) == before


@pytest.mark.parametrize("before", [{"hooks": []}, {"hooks": {"Stop": {}}}, {"hooks": "none"}])
def test_hooks_of_a_strange_shape_are_not_touched(before: dict[str, Any]):
    with pytest.raises(ForeignFile):
        with_hooks(before, HOOK)


@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=4), st.dictionaries(st.text(max_size=6), VALUES))
def test_a_server_that_comes_and_goes_leaves_the_others(before: dict[str, Any], servers: dict[str, Any]):
    together = {**before, **({"mcpServers": servers} if servers else {})}
    if "mnemolog" in servers or (not servers and "mcpServers" in before):
        return
    installed = with_server(together, "mcpServers", BRIDGE, {"type": "stdio"})
    assert installed["mcpServers"]["mnemolog"] == {"type": "stdio", "command": "/venv/bin/mnemolog", "args": ["mcp"]}
    assert without_server(installed, "mcpServers") == together
    assert with_server(installed, "mcpServers", BRIDGE, {"type": "stdio"}) == installed


def test_what_a_user_added_to_our_server_stays_when_it_is_brought_up_to_date():
    older = {"command": "/old/mnemolog", "args": ["mcp", "--profile", "memex"], "env": {"MNEMOLOG_SECRET": "s"}}
    new = ShellCommand("/venv/bin/python", ("-P", "-m", "mnemolog", "mcp"), {"MNEMOLOG_URL": "http://127.0.0.1:4000"})
    entry = with_server({"servers": {"mnemolog": older}}, "servers", new, {})["servers"]["mnemolog"]
    assert entry["args"] == ["-P", "-m", "mnemolog", "mcp", "--profile", "memex"]
    assert entry["env"] == {"MNEMOLOG_SECRET": "s", "MNEMOLOG_URL": "http://127.0.0.1:4000"}
    assert without_server({"servers": {"mnemolog": entry}}, "servers") == {}


@pytest.mark.parametrize(
    "entry", [{"type": "http", "url": "http://127.0.0.1:8080/sse"}, {"command": "npx", "args": ["mcp"]}, "x", {}]
)
def test_a_server_of_our_name_that_somebody_else_wrote_is_not_touched(entry: Any):
    before = {"servers": {"mnemolog": entry}}
    with pytest.raises(ForeignFile, match=r"servers\.mnemolog already exists"):
        with_server(before, "servers", BRIDGE, {})
    with pytest.raises(ForeignFile, match=r"servers\.mnemolog already exists"):
        with_address(before, "servers", ADDRESS, Remote())
    assert command_of(before, "servers") == ""
    assert without_server(before, "servers") == before


ADDRESS = "http://127.0.0.1:3111/mcp"
REMOTE = Remote(type="http")


@given(st.dictionaries(st.text(max_size=6), VALUES.filter(lambda value: value is not None), max_size=3))
def test_a_server_by_its_address_comes_and_goes_and_leaves_the_others(others: dict[str, Any]):
    before = {"servers": {name: value for name, value in others.items() if name != "mnemolog"}, "x": 1}
    installed = with_address(before, "servers", ADDRESS, REMOTE)
    assert installed["servers"]["mnemolog"] == {"type": "http", "url": ADDRESS}
    assert with_address(installed, "servers", ADDRESS, REMOTE) == installed
    assert without_server(installed, "servers") == (before if before["servers"] else {"x": 1})


def test_a_command_becomes_an_address_and_an_address_a_command():
    by_command = with_server({}, "servers", BRIDGE, {"type": "stdio"})
    by_address = with_address({}, "servers", ADDRESS, REMOTE)
    assert with_address(by_command, "servers", ADDRESS, REMOTE) == by_address
    assert with_server(by_address, "servers", BRIDGE, {"type": "stdio"}) == by_command


def test_the_query_of_an_address_stays_when_it_is_brought_up_to_date():
    before = {"servers": {"mnemolog": {"type": "http", "url": f"{ADDRESS}?profile=memex"}}}
    assert with_address(before, "servers", ADDRESS, REMOTE) == before
    moved = with_address(before, "servers", "http://127.0.0.1:4000/mcp", REMOTE)["servers"]["mnemolog"]
    assert moved == {"type": "http", "url": "http://127.0.0.1:4000/mcp?profile=memex"}


@pytest.mark.parametrize(
    "entry",
    [
        {"url": "https://memory.example/mcp", "headers": {"Authorization": "Bearer k"}},
        {"url": "https://memory.example/mcp", "bearer_token_env_var": "KEY"},
        {"url": "http://[bad/mcp", "timeout": 5},
        {"url": 7},
    ],
)
def test_no_other_server_gets_the_key_of_an_address_that_a_user_wrote(entry: dict[str, Any]):
    before = {"servers": {"mnemolog": entry}}
    for install in (
        lambda: with_address(before, "servers", ADDRESS, REMOTE),
        lambda: with_server(before, "servers", BRIDGE, {}),
    ):
        with pytest.raises(ForeignFile):
            install()
    assert without_server(before, "servers") == before


@pytest.mark.parametrize(
    ("entry", "command"),
    [
        ({"command": "mnemolog", "args": ["mcp"], "env": {"MNEMOLOG_URL": "http://127.0.0.1:4000"}}, "ours"),
        ({"command": "mnemolog", "args": ["mcp", "--profile", "memex"]}, "changed"),
        ({"command": "mnemolog", "args": ["mcp"], "env": {"MNEMOLOG_KEY": "k"}}, "changed"),
        ({"command": ["mnemolog", "mcp"], "environment": {"MNEMOLOG_KEY": "k"}}, "changed"),
        ({"type": "http", "url": ADDRESS}, ""),
    ],
)
def test_a_command_with_additions_of_its_user_is_recognized(entry: dict[str, Any], command: str):
    assert command_of({"servers": {"mnemolog": entry}}, "servers") == command


def test_a_host_may_have_program_and_arguments_in_one_list():
    command = ShellCommand("/venv/bin/mnemolog", ("mcp",), {"MNEMOLOG_URL": "http://127.0.0.1:4000"})
    installed = with_server({}, "mcp", command, {"type": "local"}, one_list=True)
    entry = installed["mcp"]["mnemolog"]
    assert entry["command"] == ["/venv/bin/mnemolog", "mcp"]
    assert (entry["type"], entry["environment"]) == ("local", {"MNEMOLOG_URL": "http://127.0.0.1:4000"})
    entry["command"] = ["/old/mnemolog", "mcp", "--profile", "memex"]
    entry["enabled"] = False
    again = with_server(installed, "mcp", command, {"type": "local"}, one_list=True)["mcp"]["mnemolog"]
    assert again["command"] == ["/venv/bin/mnemolog", "mcp", "--profile", "memex"]
    assert again["enabled"] is False
    assert without_server(installed, "mcp") == {}


@pytest.mark.parametrize("command", [["npx", "mcp"], [], [1, "mcp"], "mnemolog"])
def test_a_list_that_somebody_else_wrote_is_not_touched(command: Any):
    before = {"mcp": {"mnemolog": {"type": "local", "command": command}}}
    with pytest.raises(ForeignFile):
        with_server(before, "mcp", BRIDGE, {}, one_list=True)
    assert without_server(before, "mcp") == before
