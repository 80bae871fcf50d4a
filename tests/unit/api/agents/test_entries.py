"""Our entries come into the settings of others and go again, and nothing else changes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.agents import files
from api.agents.entries import NotOurs, ShellCommand, with_hooks, with_server, without_hooks, without_server
from api.agents.payloads import CLAUDE_CODE

HOOK = files.hook_line("")
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
GROUPS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"matcher": st.text(max_size=4), "hooks": st.lists(HANDLERS | VALUES, max_size=3)}
)
EVENTS = st.sampled_from([*CLAUDE_CODE.events, "Notification"])
HOOKS: st.SearchStrategy[Any] = st.dictionaries(EVENTS, st.lists(GROUPS | VALUES, min_size=1, max_size=3), min_size=1)
OTHERS = st.dictionaries(st.text(max_size=6).filter(lambda key: key != "hooks"), VALUES, max_size=4)
SETTINGS = OTHERS | st.tuples(OTHERS, HOOKS).map(lambda both: {**both[0], "hooks": both[1]})


@given(SETTINGS)
def test_hooks_that_come_and_go_leave_the_settings_as_they_were(before: dict[str, Any]):
    installed = with_hooks(before, HOOK)
    assert without_hooks(installed) == before
    assert list(without_hooks(installed)) == list(before)
    assert with_hooks(installed, HOOK) == installed


@given(SETTINGS)
def test_every_event_of_ours_has_our_hook_once(before: dict[str, Any]):
    hooks = with_hooks(before, HOOK)["hooks"]
    for event in CLAUDE_CODE.events:
        assert json.dumps(hooks[event]).count(json.dumps(HOOK)) == 1


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
    with pytest.raises(NotOurs):
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
    new = ShellCommand("/venv/bin/python", ("-m", "api.cli.main", "mcp"), {"MNEMOLOG_URL": "http://127.0.0.1:4000"})
    entry = with_server({"servers": {"mnemolog": older}}, "servers", new, {})["servers"]["mnemolog"]
    assert entry["args"] == ["-m", "api.cli.main", "mcp", "--profile", "memex"]
    assert entry["env"] == {"MNEMOLOG_SECRET": "s", "MNEMOLOG_URL": "http://127.0.0.1:4000"}
    assert without_server({"servers": {"mnemolog": entry}}, "servers") == {}


@pytest.mark.parametrize(
    "entry", [{"type": "http", "url": "http://127.0.0.1:3111/mcp"}, {"command": "npx", "args": ["mcp"]}, "x", {}]
)
def test_a_server_of_our_name_that_somebody_else_wrote_is_not_touched(entry: Any):
    before = {"servers": {"mnemolog": entry}}
    with pytest.raises(NotOurs, match=r"servers\.mnemolog is there already"):
        with_server(before, "servers", BRIDGE, {})
    assert without_server(before, "servers") == before
