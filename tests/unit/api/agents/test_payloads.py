"""What other hosts hand to a hook, as documented by them, is what Claude Code would hand over."""

from typing import Any

import msgspec
import pytest

from api.agents import payloads, recording
from api.agents import room as spooled
from api.agents.payloads import CLAUDE_CODE, CODEX, CURSOR, GEMINI_CLI, HOSTS, HookHost
from ingest.commands.parse import parse_batch
from ingest.errors import CommandRejected
from mcp_gateway.profiles import NATIVE
from tests.unit.api.agents.payloads import codex, cursor, gemini, payload

FACTS: dict[str, str] = {"project": "shop", "occurred_at": "2026-01-31T12:00:00.000Z", "event_id": "fresh"}


def recorded(host: HookHost, event: dict[str, Any]) -> dict[str, Any] | None:
    return recording.command_of(host.event(event), host=host.name, **FACTS)


SHELL: dict[str, Any] = {"tool_name": "Shell", "tool_input": {"command": "npm test"}, "tool_use_id": "abc123"}
TOOL: dict[str, Any] = {"tool_name": "run_shell_command", "tool_input": {"command": "npm test"}}
STARTED: dict[str, Any] = {
    "type": "session",
    "status": "started",
    "cwd": "/src/shop",
    "metadata": {"source": "startup"},
}


@pytest.mark.parametrize(
    ("host", "event", "expected"),
    [
        (
            CURSOR,
            cursor("sessionStart", session_id="s-1", is_background_agent=False, composer_mode="agent"),
            {**STARTED, "agent_type": "cursor"},
        ),
        (
            CURSOR,
            cursor("beforeSubmitPrompt", prompt="why is it slow?", attachments=[]),
            {"type": "observe", "kind": "prompt_submit", "data": {"prompt": "why is it slow?"}},
        ),
        (
            CURSOR,
            cursor(
                "postToolUse", **SHELL, tool_output='{"exitCode":0,"stdout":"ok"}', cwd="/src/shop/web", duration=5432
            ),
            {
                "event_id": "s-1:abc123",
                "kind": "post_tool_use",
                "data": {
                    "tool_name": "Shell",
                    "tool_input": {"command": "npm test"},
                    "tool_output": '{"exitCode":0,"stdout":"ok"}',
                },
            },
        ),
        (
            CURSOR,
            cursor("postToolUseFailure", **SHELL, error_message="timed out after 30s", failure_type="timeout"),
            {
                "kind": "post_tool_failure",
                "data": {"tool_name": "Shell", "tool_input": {"command": "npm test"}, "error": "timed out after 30s"},
            },
        ),
        (
            CURSOR,
            cursor("afterAgentResponse", text="It was the index."),
            {"type": "observe", "kind": "conversation", "content": "It was the index."},
        ),
        (
            CURSOR,
            cursor("subagentStop", subagent_type="explore", status="completed", task="Look", summary="found"),
            {"kind": "subagent_stop", "data": {"agent_id": "", "agent_type": "explore", "last_message": "found"}},
        ),
        (
            CURSOR,
            cursor("sessionEnd", session_id="s-1", reason="user_close", final_status="completed"),
            {"type": "session", "status": "ended", "reason": "user_close"},
        ),
        (GEMINI_CLI, gemini("SessionStart", source="startup"), {**STARTED, "agent_type": "gemini-cli"}),
        (
            GEMINI_CLI,
            gemini("BeforeAgent", prompt="why is it slow?"),
            {"type": "observe", "kind": "prompt_submit", "data": {"prompt": "why is it slow?"}},
        ),
        (
            GEMINI_CLI,
            gemini("AfterTool", **TOOL, tool_response={"llmContent": "Output: ok", "returnDisplay": "ok"}),
            {
                "event_id": "fresh",
                "kind": "post_tool_use",
                "data": {**TOOL, "tool_output": {"llmContent": "Output: ok", "returnDisplay": "ok"}},
            },
        ),
        (
            GEMINI_CLI,
            gemini("AfterTool", **TOOL, tool_response={"llmContent": "x", "error": {"message": "no npm", "type": "x"}}),
            {"kind": "post_tool_failure", "data": {**TOOL, "error": "no npm"}},
        ),
        (
            GEMINI_CLI,
            gemini(
                "AfterTool",
                tool_name="mcp_files_read",
                tool_input={},
                tool_response={"llmContent": "a"},
                mcp_context={"server_name": "files", "tool_name": "read", "command": "npx"},
            ),
            {
                "kind": "post_tool_use",
                "data": {"tool_name": "mcp__files__read", "tool_input": {}, "tool_output": {"llmContent": "a"}},
            },
        ),
        (
            GEMINI_CLI,
            gemini("AfterAgent", prompt="why?", prompt_response="It was the index.", stop_hook_active=False),
            {"type": "observe", "kind": "conversation", "content": "It was the index."},
        ),
        (GEMINI_CLI, gemini("SessionEnd", reason="exit"), {"type": "session", "status": "ended", "reason": "exit"}),
        (CODEX, codex("SessionStart", source="startup"), {**STARTED, "agent_type": "codex"}),
        (
            CODEX,
            codex("UserPromptSubmit", prompt="why is it slow?"),
            {"type": "observe", "kind": "prompt_submit", "data": {"prompt": "why is it slow?"}},
        ),
        (
            CODEX,
            codex(
                "PostToolUse", tool_name="Bash", tool_input={"command": "ls"}, tool_response="a", tool_use_id="call_1"
            ),
            {
                "event_id": "s-1:call_1",
                "kind": "post_tool_use",
                "data": {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_output": "a"},
            },
        ),
        (
            CODEX,
            codex("Stop", stop_hook_active=False, last_assistant_message="It was the index."),
            {"type": "observe", "kind": "conversation", "content": "It was the index."},
        ),
        (
            CODEX,
            codex("SubagentStop", agent_id="a1", agent_type="explorer", last_assistant_message="found"),
            {"kind": "subagent_stop", "data": {"agent_id": "a1", "agent_type": "explorer", "last_message": "found"}},
        ),
    ],
)
def test_an_event_of_another_host_becomes_the_command_that_claude_codes_would(
    host: HookHost, event: dict[str, Any], expected: dict[str, Any]
):
    command = recorded(host, event)
    assert command is not None
    assert command["session_id"] == "s-1"
    assert {name: command[name] for name in expected} == expected
    parse_batch(msgspec.json.encode([command]), "application/json")


@pytest.mark.parametrize("host", [CODEX, CURSOR, GEMINI_CLI])
def test_every_event_that_has_our_hook_is_understood(host: HookHost):
    recorded = {"SessionStart", "SessionEnd", "UserPromptSubmit", "Stop", "SubagentStop", *recording.TOOL_OUTCOMES}
    understood = {*recorded, recording.LESSONS_EVENT, recording.COMPACT_EVENT}
    assert set(host.events.values()) <= understood
    assert set(host.text_events) <= set(host.events.values())


@pytest.mark.parametrize(
    ("host", "event"),
    [
        (CURSOR, cursor("postToolUse", **{**SHELL, "tool_name": "MCP:recall"}, tool_output="{}")),
        (
            GEMINI_CLI,
            gemini("AfterTool", tool_name="recall", mcp_context={"server_name": "mnemolog", "tool_name": "recall"}),
        ),
        (CODEX, codex("PostToolUse", tool_name="mcp__mnemolog__recall", tool_input={}, tool_use_id="c")),
    ],
)
def test_our_own_tools_are_not_recorded(host: HookHost, event: dict[str, Any]):
    assert recorded(host, event) is None


def test_tools_of_other_servers_are_recorded():
    command = recorded(CURSOR, cursor("postToolUse", **{**SHELL, "tool_name": "MCP:create_issue"}, tool_output="{}"))
    assert command is not None
    assert command["data"]["tool_name"] == "MCP:create_issue"


def test_the_tools_that_cursor_names_without_their_server_are_all_of_ours():
    assert set(payloads.TOOLS) == {tool.name for tool in NATIVE}


@pytest.mark.parametrize(
    ("host", "event"),
    [
        (CURSOR, cursor("stop", status="completed", loop_count=0)),
        (CURSOR, cursor("afterFileEdit", file_path="/a", edits=[])),
        (CURSOR, cursor("SessionStart")),
        (GEMINI_CLI, gemini("BeforeTool", **TOOL)),
        (GEMINI_CLI, gemini("PreCompress", trigger="auto")),
        (CODEX, codex("PermissionRequest", tool_name="Bash")),
        (CURSOR, {"hook_event_name": ["sessionStart"], "conversation_id": "s-1"}),
    ],
)
def test_other_events_are_not_recorded(host: HookHost, event: dict[str, Any]):
    assert recorded(host, event) is None


def test_cursor_running_the_hooks_of_claude_code_records_nothing_twice():
    """It runs those in ~/.claude/settings.json, too, if its user wants that."""
    event = payload("UserPromptSubmit", prompt="why?")
    assert recorded(CLAUDE_CODE, event) is not None
    assert recorded(CLAUDE_CODE, {**event, "cursor_version": "1.7.2"}) is None


def test_what_the_agent_is_to_read_is_where_its_host_looks():
    text = {"additionalContext": "known", "hookEventName": "BeforeAgent"}
    assert GEMINI_CLI.answer(gemini("BeforeAgent"), "known") == {"hookSpecificOutput": text}
    text = {"additionalContext": "known", "hookEventName": "PreToolUse"}
    assert CODEX.answer(codex("PreToolUse"), "known") == {"hookSpecificOutput": text}
    assert CURSOR.answer(cursor("sessionStart"), "known") == {"additional_context": "known"}


def test_a_message_is_for_the_user_where_the_host_shows_one():
    assert CODEX.answer(codex("Stop"), "", "no key") == {"systemMessage": "no key"}
    assert CURSOR.answer(cursor("sessionStart"), "", "no key") == {}


@pytest.mark.parametrize("host", HOSTS.values())
def test_nothing_to_say_is_an_empty_answer(host: HookHost):
    assert host.answer({"hook_event_name": "SessionStart"}, "") == {}


def test_a_big_payload_is_read_by_the_server_as_its_host_means_it():
    event = cursor("postToolUse", **SHELL, tool_output="x" * 100_000)
    facts = {**FACTS, "host": "cursor"}
    content = b'{"hook":%s,"payload":%s}' % (recording.dumps(facts), msgspec.json.encode(event))
    (command,) = spooled.parse(content, "1.json")
    assert (command.event_id, command.session_id) == ("s-1:abc123", "s-1")
    with pytest.raises(CommandRejected, match="no hook for 'emacs'"):
        spooled.parse(content.replace(b'"host":"cursor"', b'"host":"emacs"'), "1.json")
