"""Our entries in the settings of others: how they look, how they are recognised, how they come and go. Pure.

Every function takes the settings as they are and returns new ones; what is not ours is the same afterwards. An older
entry of ours is brought up to date where it stands. Keys that a user added to one of ours stay until it is removed.
"""

import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Any, NamedTuple, TypeGuard

from api.agents.json_text import is_array, is_object
from api.agents.payloads import CLAUDE_CODE, SERVER
from api.agents.recording import PROMPT_EVENT, PROMPTS_FLAG

HOOK_TIMEOUT_S = 5
"""After that the host ends the hook. It needs a hundredth."""
_WITH_MATCHER = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
_MODULE = ("-m", "api.cli.main")

Value = dict[str, Any]


class NotOurs(Exception):
    """Something of the user's stands where our entry would be; the message says what."""


class ShellCommand(NamedTuple):
    """A program and its arguments, as a host starts it; `env` is what it needs beside the host's environment."""

    program: str
    args: tuple[str, ...]
    env: Mapping[str, str] = {}

    def line(self) -> str:
        """The same for a shell."""
        return shlex.join([self.program, *self.args])


def with_hooks(settings: Value, command: str, prompts: bool | None = None) -> Value:
    """The settings of Claude Code with our hook at each of its events. Raises NotOurs for a strange shape.

    `prompts` says whether the one at a prompt tells what memory has about it; None leaves that as it is, at first no.
    """
    groups_of = _object(settings, "hooks")
    if prompts is None:
        prompts = _tells_of_prompts(_groups(groups_of, PROMPT_EVENT))
    lines = {PROMPT_EVENT: f"{command} {PROMPTS_FLAG}"} if prompts else {}
    hooks: Value = {event: _updated(_groups(groups_of, event), lines.get(event, command)) for event in groups_of}
    for event in CLAUDE_CODE.events:
        groups = _groups(hooks, event)
        if not any(_is_our_hook(one) for group in groups for one in _handlers(group)):
            handler = {"type": "command", "command": lines.get(event, command), "timeout": HOOK_TIMEOUT_S}
            matcher = {"matcher": "*"} if event in _WITH_MATCHER else {}
            hooks[event] = [*groups, {**matcher, "hooks": [handler]}]
    return {**settings, "hooks": hooks}


def without_hooks(settings: Value) -> Value:
    """The settings of Claude Code without our hooks, nor what only they were in. Raises NotOurs as `with_hooks`."""
    if "hooks" not in settings:
        return settings
    old = _object(settings, "hooks")
    hooks: Value = {}
    for event in old:
        groups = _groups(old, event)
        left = [_without_ours(group) for group in groups if not _is_all_ours(group)]
        if left or not groups:
            hooks[event] = left
    if hooks or not old:
        return {**settings, "hooks": hooks}
    return {key: value for key, value in settings.items() if key != "hooks"}


def with_server(settings: Value, section: str, command: ShellCommand, extra: Mapping[str, Any]) -> Value:
    """The settings with our MCP server below `section`. Raises NotOurs when another has our name."""
    servers = _object(settings, section)
    known = servers.get(SERVER)
    if known is not None and not _is_our_server(known):
        raise NotOurs(f"{section}.{SERVER} is there already, and is not as this command writes it; it is left as it is")
    entry: Value = {**extra, "command": command.program, "args": list(command.args)}
    if command.env:
        entry["env"] = dict(command.env)
    if known is not None:
        entry = {**known, "command": command.program, "args": [*command.args, *_own_arguments(known["args"])]}
        if command.env:
            entry["env"] = {**_object(known, "env"), **command.env}
    return {**settings, section: {**servers, SERVER: entry}}


def without_server(settings: Value, section: str) -> Value:
    """The settings without our MCP server, nor a section that only it was in. One of another make stays."""
    servers = _object(settings, section)
    if not _is_our_server(servers.get(SERVER)):
        return settings
    left = {name: server for name, server in servers.items() if name != SERVER}
    if left:
        return {**settings, section: left}
    return {key: value for key, value in settings.items() if key != section}


def _is_our_hook(handler: Any) -> bool:
    """Our hook is the program's last arguments: `.../api/agents/hook.py claude-code`, wherever it was installed."""
    if not is_object(handler) or not isinstance(line := handler.get("command"), str):
        return False
    try:
        words = shlex.split(line)
    except ValueError:
        return False
    paths = [PurePath(word) for word, following in pairwise(words) if following == "claude-code"]
    return any(path.parts[-3:] == ("api", "agents", "hook.py") for path in paths)


def _tells_of_prompts(groups: Sequence[Any]) -> bool:
    ours = [one for group in groups for one in _handlers(group) if _is_our_hook(one)]
    return any(PROMPTS_FLAG in shlex.split(one["command"]) for one in ours)


def _updated(groups: Sequence[Any], command: str) -> list[Any]:
    return [
        {**group, "hooks": [{**one, "command": command} if _is_our_hook(one) else one for one in _handlers(group)]}
        if any(map(_is_our_hook, _handlers(group)))
        else group
        for group in groups
    ]


def _without_ours(group: Any) -> Any:
    if not any(map(_is_our_hook, _handlers(group))):
        return group
    return {**group, "hooks": [one for one in _handlers(group) if not _is_our_hook(one)]}


def _is_all_ours(group: Any) -> bool:
    handlers = _handlers(group)
    return bool(handlers) and all(map(_is_our_hook, handlers))


def _handlers(group: Any) -> list[Any]:
    handlers = group.get("hooks") if is_object(group) else None
    return handlers if is_array(handlers) else []


def _groups(hooks: Value, event: str) -> list[Any]:
    groups = hooks.get(event, [])
    if not is_array(groups):
        raise NotOurs(f"hooks.{event} is no list")
    return groups


def _is_our_server(entry: Any) -> TypeGuard[Value]:
    """Our server is started as `mnemolog mcp`, or as `python -m api.cli.main mcp`."""
    if not is_object(entry) or not isinstance(program := entry.get("command"), str):
        return False
    args = entry.get("args")
    if not is_array(args):
        return False
    return (PurePath(program).stem == SERVER and args[:1] == ["mcp"]) or args[:3] == [*_MODULE, "mcp"]


def _own_arguments(args: list[Any]) -> list[Any]:
    """What a user wrote behind ours, such as `--profile memex`."""
    return args[3:] if tuple(args[:2]) == _MODULE else args[1:]


def _object(settings: Mapping[str, Any], key: str) -> Value:
    value = settings.get(key, {})
    if not is_object(value):
        raise NotOurs(f"{key} is no object")
    return value
