"""Translates hosts' hook payloads to those of Claude Code, and texts for the agent back; reads and writes JSON. Pure.

`recording` only knows Claude Code's events and fields; the names of other hosts are here, a table and a function each,
from their documentation. Loaded by every hook, so it imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

SERVER = "mnemolog"
"""Our name among the MCP servers of a host."""
TOOLS = ("recall", "remember", "observe", "lesson", "confirm", "context", "revise", "forget", "slots", "claim")
"""Our MCP tools, for a host that names only the tool."""
PREVIEW_CHARS, PREVIEW_PART_CHARS = 1_000, 500  # as much as the server reads
PATH_FIELDS = ("file_path", "notebook_path", "path")


class HookHost:
    """A host with hooks.

    `events` maps its events with our hook to Claude Code's names. `text_events` (Claude Code's names) accept a text for
    the agent. `folder` is the environment variable with the project's folder, if any. A `flat` host has no groups of
    hooks, and no way to show its user a message. `can_deny`: whether a hook before a tool can stop it.
    """

    def __init__(
        self,
        name: str,
        events: Mapping[str, str],
        *,
        text_events: tuple[str, ...],
        fields: Callable[[Mapping[str, Any]], dict[str, Any]],
        folder: str = "",
        flat: bool = False,
        can_deny: bool = False,
    ) -> None:
        self.name, self.events, self.text_events, self.folder, self.flat = name, events, text_events, folder, flat
        self._fields, self.can_deny = fields, can_deny

    def event(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The payload in Claude Code's form. Without event or session if it is not for us."""
        name = self.events.get(_text(payload.get("hook_event_name")), "")
        return {**payload, "hook_event_name": name, **self._fields(payload)}

    def answer(self, payload: Mapping[str, Any], text: str, message: str = "") -> dict[str, Any]:
        """The output that gives the text to the agent and the message to the user; empty without both.

        It does not decide whether a tool runs or a prompt is sent.
        """
        if self.flat:
            return {"additional_context": text} if text else {}
        answer: dict[str, Any] = {"systemMessage": message} if message else {}
        if text:
            answer["hookSpecificOutput"] = {"hookEventName": payload["hook_event_name"], "additionalContext": text}
        return answer

    def agent(self, event: Mapping[str, Any]) -> str:
        """The agent of an event that no setting names: the host, and a subagent after a slash."""
        subagent = _text(event.get("agent_type"))
        name = self.name.removesuffix("-cli")
        return f"{name}/{subagent}" if subagent else name

    def denial(self, payload: Mapping[str, Any], text: str) -> dict[str, Any]:
        """The output that stops a tool call once and gives the model the text as the reason: otherwise it gets the text
        with the tool's result. The same call runs when it is repeated."""
        reason = f"{text}\nThe call did not run. Run it again if you still mean to."
        decision = {"permissionDecision": "deny", "permissionDecisionReason": reason}
        return {"hookSpecificOutput": {"hookEventName": payload["hook_event_name"], **decision}}


class _Lenient:
    """Options of the scanner. NaN and Infinity become texts."""

    strict, object_hook, object_pairs_hook = False, None, None
    parse_float, parse_int, parse_constant = float, int, str
    memo: dict[str, str] = {}  # noqa: RUF012


def loads(raw: bytes) -> Any:
    """The JSON value; raises ValueError. By json's C half, because json imports re, which doubles the startup time."""
    try:
        import _json

        scan = _json.make_scanner(_Lenient())  # pyright: ignore
    except (ImportError, AttributeError, TypeError):  # another Python
        import json

        scan = json.JSONDecoder(strict=False, parse_constant=str).raw_decode
    try:
        return scan(raw.decode("utf-8", "replace").strip(), 0)[0]
    except (StopIteration, RecursionError):
        raise ValueError("not JSON") from None


def dumps(value: Any) -> bytes:
    """The value as ASCII JSON; by json's C half, like `loads`."""
    try:
        import _json

        ascii_text = _json.encode_basestring_ascii
        encode = _json.make_encoder(None, str, ascii_text, None, ":", ",", False, False, True)  # pyright: ignore
    except (ImportError, AttributeError, TypeError):
        import json

        return json.dumps(value, separators=(",", ":")).encode()
    return "".join(encode(value, 0)).encode()


def _cursor(payload: Mapping[str, Any]) -> dict[str, Any]:
    roots = payload.get("workspace_roots")
    tool = _text(payload.get("tool_name"))
    server, _, name = tool.partition(":")
    if server == "MCP" and name in TOOLS:  # the payload does not name the server
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
    {
        name: name
        for name in (
            "SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop", "SubagentStop",
            "SessionEnd", "PreToolUse", "SubagentStart",
        )
    },
    text_events=("SessionStart", "UserPromptSubmit", "PreToolUse", "SubagentStart"),
    # Cursor can also run the hooks of Claude Code's settings, but it has its own: see CURSOR
    fields=lambda payload: {"session_id": "", "tool_name": ""} if "cursor_version" in payload else {},
    folder="CLAUDE_PROJECT_DIR",
    can_deny=True,
)  # fmt: skip
CODEX = HookHost(
    "codex",
    {name: name for name in CLAUDE_CODE.events if name not in ("PostToolUseFailure", "SessionEnd", "SubagentStart")},
    text_events=("SessionStart", "UserPromptSubmit", "PreToolUse"),
    fields=lambda payload: {},
    can_deny=True,
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
    text_events=("SessionStart",),
    fields=_cursor,
    folder="CURSOR_PROJECT_DIR",
    flat=True,
)
"""Not afterShellExecution, afterFileEdit and afterMCPExecution: postToolUse covers the same calls."""
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
    text_events=("SessionStart", "UserPromptSubmit"),
    fields=_gemini_cli,
    folder="GEMINI_PROJECT_DIR",
)
HOSTS = {host.name: host for host in (CLAUDE_CODE, CODEX, CURSOR, GEMINI_CLI)}


def preview(tool_input: Any) -> str:
    """A tool's input as matched by lessons: its texts, a path first, then in order, each cut, joined."""
    if isinstance(tool_input, str):
        return tool_input[:PREVIEW_CHARS]
    if type(tool_input).__name__ != "dict":
        return ""
    names = sorted(tool_input, key=lambda name: name not in PATH_FIELDS)
    parts = [text for name in names if isinstance(text := tool_input[name], str)]
    most = PREVIEW_CHARS if len(parts) == 1 or tool_input.get("command") else PREVIEW_PART_CHARS
    return " ".join(text[:most] for text in parts)[:PREVIEW_CHARS]
