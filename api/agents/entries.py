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
from api.agents.payloads import CLAUDE_CODE, GEMINI_CLI, HOSTS, SERVER, HookHost
from api.agents.recording import PROMPT_EVENT, PROMPTS_FLAG

HOOK_TIMEOUT_S = 5
"""After that the host ends the hook. It needs a hundredth."""
_WITH_MATCHER = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
_VERSION = {"version": 1}
"""Of the file that a host with flat lists has for its hooks alone."""
_INSTRUCTIONS = "instructions"
_MODULE = ("-m", "api.cli.main")

Value = dict[str, Any]


class ForeignFile(Exception):
    """Something of the user's stands where our entry would be; the message says what."""


class ShellCommand(NamedTuple):
    """A program and its arguments, as a host starts it; `env` is what it needs beside the host's environment."""

    program: str
    args: tuple[str, ...]
    env: Mapping[str, str] = {}

    def line(self) -> str:
        """The same for a shell."""
        return shlex.join([self.program, *self.args])


def with_hooks(settings: Value, command: str, prompts: bool | None = None, *, host: HookHost = CLAUDE_CODE) -> Value:
    """The settings of a host with our hook at each of its events. Raises NotOurs for a strange shape.

    `prompts` says whether the one at a prompt tells what memory has about it; None leaves that as it is, at first no.
    """
    groups_of = _object(settings, "hooks")
    at_prompt = next(event for event, ours in host.events.items() if ours == PROMPT_EVENT)
    if prompts is None:
        prompts = _tells_of_prompts(_list(groups_of, at_prompt))
    lines = {at_prompt: f"{command} {PROMPTS_FLAG}"} if prompts else {}
    hooks: Value = {
        event: _updated(groups, lines.get(event, command)) if is_array(groups) else groups
        for event, groups in groups_of.items()
    }
    for event in host.events:
        groups = _list(hooks, event)
        if not any(_is_our_hook(one) for group in groups for one in _handlers(group)):
            hooks[event] = [*groups, _hook(host, event, lines.get(event, command))]
    return {**(_VERSION if host.flat else {}), **settings, "hooks": hooks}


def without_hooks(settings: Value) -> Value:
    """The settings of a host without our hooks, nor what only they were in. Raises NotOurs as `with_hooks`."""
    if "hooks" not in settings:
        return settings
    old = _object(settings, "hooks")
    hooks: Value = {}
    for event, groups in old.items():
        left = [_without_ours(one) for one in groups if not _is_all_ours(one)] if is_array(groups) else groups
        if left or not groups:
            hooks[event] = left
    if hooks or not old:
        return {**settings, "hooks": hooks}
    others = {key: value for key, value in settings.items() if key != "hooks"}
    return {} if others == _VERSION else others


def with_instruction(settings: Value, path: str) -> Value:
    """The settings with a file of ours among the host's instructions. Raises NotOurs as `with_hooks`."""
    paths = _list(settings, _INSTRUCTIONS)
    return settings if path in paths else {**settings, _INSTRUCTIONS: [*paths, path]}


def without_instruction(settings: Value, path: str) -> Value:
    """The settings without it, nor a list that only it was in."""
    paths = settings.get(_INSTRUCTIONS)
    if not is_array(paths) or path not in paths:
        return settings
    if left := [one for one in paths if one != path]:
        return {**settings, _INSTRUCTIONS: left}
    return {key: value for key, value in settings.items() if key != _INSTRUCTIONS}


def with_server(
    settings: Value, section: str, command: ShellCommand, extra: Mapping[str, Any], *, one_list: bool = False
) -> Value:
    """The settings with our MCP server below `section`. Raises NotOurs when another has our name.

    `one_list` is for a host that has program and arguments in one list, and another word for the environment.
    """
    servers = _object(settings, section)
    known = servers.get(SERVER)
    if known is not None and not _is_our_server(known):
        raise ForeignFile(
            f"{section}.{SERVER} is there already, and is not as this command writes it; it is left as it is"
        )
    args = [*command.args, *(_own_arguments(known) if known else [])]
    env = "environment" if one_list else "env"
    entry: Value = {**(known or extra), "command": [command.program, *args] if one_list else command.program}
    if not one_list:
        entry["args"] = args
    if command.env:
        entry[env] = {**_object(entry, env), **command.env}
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


def _hook(host: HookHost, event: str, command: str) -> Value:
    """What stands in a host's list for an event."""
    if host.flat:
        return {"command": command, "timeout": HOOK_TIMEOUT_S}
    handler: Value = {"type": "command", "command": command, "timeout": HOOK_TIMEOUT_S}
    if host is GEMINI_CLI:
        handler = {"name": SERVER, **handler, "timeout": HOOK_TIMEOUT_S * 1000}
    return {**({"matcher": "*"} if host.events[event] in _WITH_MATCHER else {}), "hooks": [handler]}


def _is_our_hook(handler: Any) -> bool:
    """Our hook is the program's last arguments: `.../api/agents/hook.py HOST`, wherever it was installed."""
    if not is_object(handler) or not isinstance(line := handler.get("command"), str):
        return False
    try:
        words = shlex.split(line)
    except ValueError:
        return False
    paths = [PurePath(word) for word, following in pairwise(words) if following in HOSTS]
    return any(path.parts[-3:] == ("api", "agents", "hook.py") for path in paths)


def _tells_of_prompts(groups: Sequence[Any]) -> bool:
    ours = [one for group in groups for one in _handlers(group) if _is_our_hook(one)]
    return any(PROMPTS_FLAG in shlex.split(one["command"]) for one in ours)


def _updated(groups: Sequence[Any], command: str) -> list[Any]:
    return [_with_command(group, command) if any(map(_is_our_hook, _handlers(group))) else group for group in groups]


def _with_command(group: Value, command: str) -> Value:
    if "hooks" not in group:
        return {**group, "command": command}
    hooks = [{**one, "command": command} if _is_our_hook(one) else one for one in _handlers(group)]
    return {**group, "hooks": hooks}


def _without_ours(group: Any) -> Any:
    if not any(map(_is_our_hook, _handlers(group))):
        return group
    return {**group, "hooks": [one for one in _handlers(group) if not _is_our_hook(one)]}


def _is_all_ours(group: Any) -> bool:
    handlers = _handlers(group)
    return bool(handlers) and all(map(_is_our_hook, handlers))


def _handlers(group: Any) -> list[Any]:
    """The hooks of a group; where a host has no groups, each is a hook itself."""
    handlers = group.get("hooks", [group]) if is_object(group) else None
    return handlers if is_array(handlers) else []


def _list(parent: Value, key: str) -> list[Any]:
    groups = parent.get(key, [])
    if not is_array(groups):
        raise ForeignFile(f"{key} is no list")
    return groups


def _is_our_server(entry: Any) -> TypeGuard[Value]:
    """Our server is started as `mnemolog mcp`, or as `python -m api.cli.main mcp`."""
    program, *args = _words(entry) or [""]
    if not isinstance(program, str):
        return False
    return (PurePath(program).stem == SERVER and args[:1] == ["mcp"]) or args[:3] == [*_MODULE, "mcp"]


def _own_arguments(entry: Value) -> list[Any]:
    """What a user wrote behind ours, such as `--profile memex`."""
    _, *args = _words(entry)
    return args[3:] if tuple(args[:2]) == _MODULE else args[1:]


def _words(entry: Any) -> list[Any]:
    """Program and arguments of a server's entry; empty for one of another shape."""
    if not is_object(entry):
        return []
    command, args = entry.get("command"), entry.get("args")
    if is_array(command):
        return command
    return [command, *args] if isinstance(command, str) and is_array(args) else []


def _object(settings: Mapping[str, Any], key: str) -> Value:
    value = settings.get(key, {})
    if not is_object(value):
        raise ForeignFile(f"{key} is no object")
    return value
