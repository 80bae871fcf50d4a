"""Our entries in other programs' settings: their form, how to recognize, add and remove them. Pure.

Every function takes settings and returns new ones; entries of others never change. An older entry of ours is updated in
place. Keys that a user added to one of ours stay until it is removed.
"""

import re
import shlex
from collections.abc import Mapping
from itertools import pairwise
from pathlib import PurePath
from typing import Any, Literal, NamedTuple, TypeGuard

from api.agents.json_text import is_array, is_object
from api.agents.payloads import CLAUDE_CODE, GEMINI_CLI, HOSTS, SERVER, HookHost
from api.agents.recording import PROMPT_EVENT, PROMPTS_FLAG, START_FLAG

HOOK_TIMEOUT_S = 5
"""The host's limit for the hook, which needs a hundredth of it."""
_WITH_MATCHER = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
_VERSION = {"version": 1}
"""Of the hooks file of a host with flat lists."""
_INSTRUCTIONS = "instructions"
_MODULE = ("-P", "-m", SERVER)
_ADDRESS_KEYS = ("url", "httpUrl", "serverUrl")

Value = dict[str, Any]


class ForeignFile(Exception):
    """The user has something in the place of our entry; the message says what."""


class ShellCommand(NamedTuple):
    """A program and its arguments, as a host starts it; `env` is added to the host's environment."""

    program: str
    args: tuple[str, ...]
    env: Mapping[str, str] = {}

    def line(self) -> str:
        """The same for a shell."""
        return shlex.join([self.program, *self.args])


def with_hooks(
    settings: Value,
    command: str,
    prompts: bool | None = None,
    start: bool | None = None,
    *,
    host: HookHost = CLAUDE_CODE,
) -> Value:
    """The settings of a host with our hook at each of its events. Raises ForeignFile for an unknown form.

    `prompts`: whether to recall on every prompt; `start`: whether to start a server that is down; None keeps the
    current setting (default: off).
    """
    groups_of = _object(settings, "hooks")
    at_prompt = next(event for event, ours in host.events.items() if ours == PROMPT_EVENT)
    current = [hook for group in _list(groups_of, at_prompt) for hook in _handlers(group) if _is_our_hook(hook)]
    words = {word for hook in current for word in shlex.split(hook["command"])}
    prompts = PROMPTS_FLAG in words if prompts is None else prompts
    start = START_FLAG in words if start is None else start
    command += f" {START_FLAG}" * start
    lines = {at_prompt: f"{command} {PROMPTS_FLAG}"} if prompts else {}
    hooks: Value = {
        event: [_with_command(group, lines.get(event, command)) for group in groups] if is_array(groups) else groups
        for event, groups in groups_of.items()
    }
    for event in host.events:
        groups = _list(hooks, event)
        if not any(_is_our_hook(hook) for group in groups for hook in _handlers(group)):
            hooks[event] = [*groups, _hook(host, event, lines.get(event, command))]
    return {**(_VERSION if host.flat else {}), **settings, "hooks": hooks}


def without_hooks(settings: Value) -> Value:
    """The settings of a host without our hooks and their containers. Raises ForeignFile like `with_hooks`."""
    if "hooks" not in settings:
        return settings
    old = _object(settings, "hooks")
    hooks: Value = {}
    for event, groups in old.items():
        others = [other for group in groups for other in _without_ours(group)] if is_array(groups) else groups
        if others or not groups:
            hooks[event] = others
    if hooks or not old:
        return {**settings, "hooks": hooks}
    rest = _without(settings, "hooks")
    return {} if rest == _VERSION else rest


def with_instruction(settings: Value, path: str) -> Value:
    """The settings with our file among the host's instructions. Raises ForeignFile like `with_hooks`."""
    paths = _list(settings, _INSTRUCTIONS)
    return settings if path in paths else {**settings, _INSTRUCTIONS: [*paths, path]}


def without_instruction(settings: Value, path: str) -> Value:
    """The settings without our file, and without an empty list."""
    paths = settings.get(_INSTRUCTIONS)
    if not is_array(paths) or path not in paths:
        return settings
    others = [other for other in paths if other != path]
    return {**settings, _INSTRUCTIONS: others} if others else _without(settings, _INSTRUCTIONS)


class Remote(NamedTuple):
    """The form in which a host names an MCP server by its address."""

    key: str = "url"
    type: str = ""


def with_server(
    settings: Value, section: str, command: ShellCommand, extra: Mapping[str, Any], *, one_list: bool = False
) -> Value:
    """The settings with our MCP server below `section`, as a command. Raises ForeignFile if another has our name.

    `one_list` is for a host with program and arguments in one list, and another key for the environment.
    """
    servers = _object(settings, section)
    current = _our_server(servers, section)
    _, *args = _words(current) or [""]
    # arguments that a user added after ours, such as `--profile memex`
    args = [*command.args, *args[len(_MODULE) + 1 if tuple(args[: len(_MODULE)]) == _MODULE else 1 :]]
    env = "environment" if one_list else "env"
    entry: Value = {**(current if _words(current) else extra)}
    entry["command"] = [command.program, *args] if one_list else command.program
    if not one_list:
        entry["args"] = args
    if command.env:
        entry[env] = {**_object(entry, env), **command.env}
    return {**settings, section: {**servers, SERVER: entry}}


def with_address(settings: Value, section: str, address: str, remote: Remote) -> Value:
    """The settings with our MCP server below `section`, by its address. Raises like `with_server`."""
    servers = _object(settings, section)
    current = _our_server(servers, section)
    _, separator, query = str(current.get(remote.key, "")).partition("?")  # a user's, such as `?profile=memex`
    entry = {**({"type": remote.type} if remote.type else {}), remote.key: address + separator + query}
    return {**settings, section: {**servers, SERVER: entry}}


def command_of(settings: Value, section: str) -> Literal["", "ours", "changed"]:
    """Whether our MCP server is a command: `ours`, or `changed` if a user added arguments or variables to it."""
    entry = _object(settings, section).get(SERVER)
    if not _is_our_server(entry) or not (words := _words(entry)):
        return ""
    variables = _object(entry, "env").keys() | _object(entry, "environment").keys()
    return "changed" if words[-1] != "mcp" or variables - {"MNEMOLOG_URL"} else "ours"


def without_server(settings: Value, section: str) -> Value:
    """The settings without our MCP server, and without an empty section. A server in another form stays."""
    servers = _object(settings, section)
    if not _is_our_server(servers.get(SERVER)):
        return settings
    others = _without(servers, SERVER)
    return {**settings, section: others} if others else _without(settings, section)


def _without(values: Value, name: str) -> Value:
    return {key: value for key, value in values.items() if key != name}


def _hook(host: HookHost, event: str, command: str) -> Value:
    """Our hook in a host's list for an event."""
    if host.flat:
        return {"command": command, "timeout": HOOK_TIMEOUT_S}
    handler: Value = {"type": "command", "command": command, "timeout": HOOK_TIMEOUT_S}
    if host is GEMINI_CLI:
        handler = {"name": SERVER, **handler, "timeout": HOOK_TIMEOUT_S * 1000}
    return {**({"matcher": "*"} if host.events[event] in _WITH_MATCHER else {}), "hooks": [handler]}


def _is_our_hook(handler: Any) -> bool:
    """Our hook ends with `.../api/agents/hook.py HOST`, wherever it was installed."""
    if not is_object(handler) or not isinstance(line := handler.get("command"), str):
        return False
    try:
        words = shlex.split(line)
    except ValueError:
        return False
    paths = [PurePath(word) for word, following in pairwise(words) if following in HOSTS]
    return any(path.parts[-3:] == ("api", "agents", "hook.py") for path in paths)


def _with_command(group: Any, command: str) -> Any:
    """A group with our hook's command updated, if it has our hook."""
    if not any(map(_is_our_hook, _handlers(group))):
        return group
    if "hooks" not in group:
        return {**group, "command": command}
    hooks = [{**hook, "command": command} if _is_our_hook(hook) else hook for hook in group["hooks"]]
    return {**group, "hooks": hooks}


def _without_ours(group: Any) -> list[Any]:
    """A group without our hooks; no group if it has no others."""
    handlers = _handlers(group)
    others = [hook for hook in handlers if not _is_our_hook(hook)]
    if len(others) == len(handlers):
        return [group]
    return [{**group, "hooks": others}] if others else []


def _handlers(group: Any) -> list[Any]:
    """The hooks of a group; in a host without groups, the hook itself."""
    handlers = group.get("hooks", [group]) if is_object(group) else None
    return handlers if is_array(handlers) else []


def _list(parent: Value, key: str) -> list[Any]:
    groups = parent.get(key, [])
    if not is_array(groups):
        raise ForeignFile(f"{key} is not a list")
    return groups


def _is_our_server(entry: Any) -> TypeGuard[Value]:
    """Our server is started as `mnemolog mcp`, or as `python -P -m mnemolog mcp`, or has only an address that ends so.

    An entry with an address and a key of its user is not ours: another address must not get that key.
    """
    if is_object(entry) and (keys := entry.keys() - {"type"}) and keys <= {*_ADDRESS_KEYS}:
        return all(re.fullmatch(r"https?://[^?#]+/mcp(\?.*)?", str(entry[key])) for key in keys)
    program, *args = _words(entry) or [""]
    if not isinstance(program, str):
        return False
    return (PurePath(program).stem == SERVER and args[:1] == ["mcp"]) or args[: len(_MODULE) + 1] == [*_MODULE, "mcp"]


def _our_server(servers: Value, section: str) -> Value:
    """The entry of our server, or an empty one. Raises ForeignFile if another server has our name."""
    current = servers.get(SERVER)
    if current is not None and not _is_our_server(current):
        raise ForeignFile(f"{section}.{SERVER} already exists in another form; it is left unchanged")
    return current or {}


def _words(entry: Any) -> list[Any]:
    """Program and arguments of a server's entry; empty for another form."""
    if not is_object(entry):
        return []
    command, args = entry.get("command"), entry.get("args")
    if is_array(command):
        return command
    return [command, *args] if isinstance(command, str) and is_array(args) else []


def _object(settings: Mapping[str, Any], key: str) -> Value:
    value = settings.get(key, {})
    if not is_object(value):
        raise ForeignFile(f"{key} is not an object")
    return value
