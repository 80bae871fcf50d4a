"""What hosts hand to a hook, as Claude Code would hand it over, and how each takes a text back. Pure.

`recording` knows the events and fields of Claude Code alone; what the others call them is here. A table and a function
a host, from their documentation. Loaded by every hook, so it imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

SERVER = "mnemolog"
"""Our name among the MCP servers of a host."""
TOOLS = ("recall", "remember", "observe", "lesson", "confirm", "context", "revise", "forget", "slots")
"""Our MCP tools, for a host that names the tool alone."""


class HookHost:
    """A host with hooks.

    `events` are its events that have our hook, each with Claude Code's name of it. `told` are those of them, by Claude
    Code's names, at which it takes a text for the agent. `folder` is the environment variable that holds the folder of
    the project, if it has one.
    """

    def __init__(
        self,
        name: str,
        events: Mapping[str, str],
        *,
        told: tuple[str, ...],
        fields: Callable[[Mapping[str, Any]], dict[str, Any]],
        folder: str = "",
        flat: bool = False,
    ) -> None:
        self.name, self.events, self.told, self.folder = name, events, told, folder
        self._fields = fields
        self.flat = flat
        """Whether it has neither groups of hooks nor a way to show its user a message."""

    def event(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The payload as Claude Code would hand it over. Without event or session when it is not for us."""
        name = self.events.get(_text(payload.get("hook_event_name")), "")
        return {**payload, "hook_event_name": name, **self._fields(payload)}

    def answer(self, payload: Mapping[str, Any], text: str, message: str = "") -> dict[str, Any]:
        """What to print so that the agent reads the text and the user the message; nothing where there is neither.

        Whether a tool may run, or a prompt be sent, is not ours to say.
        """
        if self.flat:
            return {"additional_context": text} if text else {}
        answer: dict[str, Any] = {"systemMessage": message} if message else {}
        if text:
            answer["hookSpecificOutput"] = {"hookEventName": payload["hook_event_name"], "additionalContext": text}
        return answer


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def _claude_code(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Cursor runs the hooks in Claude Code's settings, too, if its user wants that. It has its own: see CURSOR."""
    return {"session_id": "", "tool_name": ""} if "cursor_version" in payload else {}


def _codex(_: Mapping[str, Any]) -> dict[str, Any]:
    return {}


def _cursor(payload: Mapping[str, Any]) -> dict[str, Any]:
    roots = payload.get("workspace_roots")
    tool = _text(payload.get("tool_name"))
    server, _, name = tool.partition(":")
    if server == "MCP" and name in TOOLS:  # which server it is of is not told
        tool = f"mcp__{SERVER}__{name}"
    return {
        "session_id": _text(payload.get("conversation_id")) or _text(payload.get("session_id")),
        "cwd": roots[0] if roots and isinstance(roots, list) else payload.get("cwd"),
        "source": "startup",  # only new conversations have this event
        "tool_name": tool,
        "tool_response": payload.get("tool_output"),
        "error": payload.get("error_message"),
        "agent_type": payload.get("subagent_type"),
        "last_assistant_message": payload.get("text") or payload.get("summary"),
    }


def _gemini_cli(payload: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {"last_assistant_message": payload.get("prompt_response")}
    if origin := _object(payload.get("mcp_context")):
        fields["tool_name"] = f"mcp__{origin.get('server_name')}__{origin.get('tool_name')}"
    if error := _object(payload.get("tool_response")).get("error"):
        fields["hook_event_name"] = "PostToolUseFailure"
        fields["error"] = _object(error).get("message") or error
    return fields


def _object(value: Any) -> dict[str, Any]:
    return value if type(value).__name__ == "dict" else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


CLAUDE_CODE = HookHost(
    "claude-code",
    _same(
        "SessionStart",
        "UserPromptSubmit",
        "PostToolUse",
        "PostToolUseFailure",
        "Stop",
        "SubagentStop",
        "SessionEnd",
        "PreToolUse",
    ),
    told=("SessionStart", "UserPromptSubmit", "PreToolUse"),
    fields=_claude_code,
    folder="CLAUDE_PROJECT_DIR",
)
CODEX = HookHost(
    "codex",
    _same("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SubagentStop", "PreToolUse"),
    told=("SessionStart", "UserPromptSubmit", "PreToolUse"),
    fields=_codex,
)
CURSOR = HookHost(
    "cursor",
    {
        "sessionStart": "SessionStart",
        "beforeSubmitPrompt": "UserPromptSubmit",
        "postToolUse": "PostToolUse",
        "postToolUseFailure": "PostToolUseFailure",
        "afterAgentResponse": "Stop",
        "subagentStop": "SubagentStop",
        "sessionEnd": "SessionEnd",
    },
    told=("SessionStart",),
    fields=_cursor,
    folder="CURSOR_PROJECT_DIR",
    flat=True,
)
"""Not afterShellExecution, afterFileEdit and afterMCPExecution: postToolUse is of the same calls."""
GEMINI_CLI = HookHost(
    "gemini-cli",
    {
        "SessionStart": "SessionStart",
        "BeforeAgent": "UserPromptSubmit",
        "AfterTool": "PostToolUse",
        "AfterAgent": "Stop",
        "PreCompress": "PreCompact",
        "SessionEnd": "SessionEnd",
    },
    told=("SessionStart", "UserPromptSubmit"),
    fields=_gemini_cli,
    folder="GEMINI_PROJECT_DIR",
)
HOSTS = {host.name: host for host in (CLAUDE_CODE, CODEX, CURSOR, GEMINI_CLI)}
