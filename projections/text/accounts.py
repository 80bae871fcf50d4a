"""An observation as readable text: messages verbatim, tool calls as one line with the action and its object.

Guarantee: pure, never raises on JSON-like data, one tool call is one line.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol, cast

import msgspec

from ingest.log.position import Position
from projections.text.compression import told_by
from projections.text.payloads import named
from projections.text.sentences import SCAN_CHARS, each_stated, shortened
from projections.text.turns import Turn


class Observed(Protocol):
    """What an account reads of an observation, which is a document of a floor above."""

    @property
    def kind(self) -> str: ...
    @property
    def content(self) -> str: ...
    @property
    def data(self) -> dict[str, Any]: ...
    @property
    def turn(self) -> Turn: ...
    @property
    def words(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def narrative(self) -> str: ...
    @property
    def call_headline(self) -> str: ...
    @property
    def occurred_at(self) -> datetime: ...
    @property
    def position(self) -> str: ...


MODIFYING = frozenset(("file_edit", "file_write"))
"""Kinds of observation that changed their files."""
_PROSE_FIELDS = ("prompt", "last_message", "message", "task_description", "task_subject", "text")
"""Where agentmemory's hooks put what somebody said."""
_TARGET_FIELDS = (
    "file_path", "filepath", "filePath", "absolute_path", "target_file", "notebook_path", "file", "command", "cmd",
    "pattern", "query", "url", "path", "title", "prompt", "description",
)  # fmt: skip
"""What the tools of Claude Code, Codex, Cursor, Gemini CLI and OpenCode call what they work on."""
_CUT_FIELD = re.compile(rf'"({"|".join(_TARGET_FIELDS)})"\s*:\s*"((?:[^"\\]|\\.)*)')
"""Of JSON text that a hook cut, so that no parser reads it."""
_WRITTEN_FIELDS = ("new_string", "newString", "new_str", "new_source", "content", "code_edit", "patch", "contents")
_REPLACED_FIELDS = ("old_string", "oldString", "old_str")
_TARGET_CHARS, _LEAST_TARGET_CHARS = 120, 50
_REASON_CHARS = 160
"""Enough for an exception with its message."""
HEADLINE_CHARS = 160
_GIST_CHARS = 80
_OUTPUT_CHARS, _LINE_CHARS = 8_000, 500
"""Of an output, from its end: how it went is said there, and pages of a thousand calls are made in one go."""
_TESTED = re.compile(r"\d(?<![#\w]\d)\d* (?:passed|failed|errors?|tests?|failures?|warnings?)\b", re.IGNORECASE)
_TESTS_FAILED = re.compile(r"[1-9](?<!\w[1-9])\d* (?:failed|errors?|failures?)\b")
_STAMP = re.compile(r"\A(?:.{0,60}?\d{4}-\d\d-\d\d[T ][\d:.,]+Z?|#\d+(?: \d+\.\d+)?)\s+")
_FAILED_TEST = re.compile(
    r"\A(?:(?:-+ )?FAIL(?:ED|:)?|[✘✗✕×●]|_{4,}|\d+\)(?= .*›)|test(?= \S+ \.\.\. FAILED))\s+(?P<name>[^\s(].*?)"
    r"(?: - (?P<why>.*)|[\s_]*(?: \(\d[\d.]*\s?m?s\)| \.\.\. FAILED)?)\Z"
)
"""A test that failed, as pytest, Go, Cargo, Vitest, Jest and Playwright list it."""
_CODE = re.compile(r"\A(?:>|File \"|at |(?:raise|class|def|func|function|except|catch|throw|import|from|return|if)\b)")
# each begins with a set of characters, which makes a search several times as fast
_NOTHING = re.compile(
    r"[0nNfFeE](?<!\w[0nNfFeE])"
    r"(?i:(?:(?<=0)|(?<=n)o) (?:errors?|failed|failures?|problems?)|(?:(?<=f)ailed|(?<=e)rrors?)[=:] ?0)\b"
)
_AFTERMATH = re.compile(
    r"[eEdDlL](?i:(?<=e)xit(?:ed with)? (?:code|status)[ :]*[1-9]|(?<=\be)rror:? -?\d+\s*\Z|(?<=d)id not complete"
    r"|(?<=l)ifecycle)"
)
_REASON_BEGINS = re.compile(r"E {2,}(?![-+?])|\w+(?:\.\w+)*\.[A-Z]\w+: \S")
_REASON = re.compile(
    r"[EF\[efpP](?:(?<=E)(?:rror|xception)\b(?:\[\w+\])?: \S|(?<=\[)(?:ERROR|FATAL)\] \S|(?<=\bF)AIL(?:ED)? +\w"
    r"|(?i:(?:(?<=\be)rror|(?<=\bf)atal|(?<=\bp)anic)\b[^:()\"'`]{0,40}: *\S))"
)
_TROUBLE = (
    "error", "fail", "exception", "fatal", "panic", "cannot", "can't", "could not", "unable", "denied", "refused",
    "not found", "no such", "no rule", "timeout", "timed out", "exceeded", "killed", "expected", "mismatch", "got ",
    "undefined", "requires", "reset by peer",
)  # fmt: skip
_SIGNS = (*_TROUBLE, "\ne  ", "____", "✘", "✗", "✕", "×", "●", "›", "exit", "did not complete", "lifecycle")
"""One is in each line that says that something failed."""
_MOST_LINES = 40  # of these, from the beginning and from the end
_PAGING = re.compile(r"\s*(?:2>&1)?\s*\|\s*(?:tail|head)\b[^|;&]*\Z|\s*2>&1\Z")
_LOOKING = re.compile(
    r"\A(?:cd \S+ && )?(?:grep|rg|git (?:grep|show|diff|log|blame)|cat|sed -n|head|tail|ls|find|awk|wc)\b"
    r"(?:[^;&\n]|>&)*\Z"
)
"""A command that lists what stands in files: errors in it are not its own."""
_SHELLS = frozenset(("bash", "sh", "zsh", "/bin/bash", "/bin/sh", "-c", "-lc", "-l"))
_CALL = re.compile(r"(?:\S+: )?\S+ `[^`]*`(?:\.?\Z| failed: |: )")
_CALL_ALONE = re.compile(r"\S+ `[^`]*`")


def in_time(observation: Observed) -> tuple[float, Position]:
    """Sort key: when it happened, then its place in the log."""
    return observation.occurred_at.timestamp(), Position.parse(observation.position)


def user_words(observation: Observed) -> str:
    """Returns what the user typed; "" for the turn of anybody else."""
    return prose(observation) if observation.turn == "user" else ""


def prose(observation: Observed) -> str:
    """Returns the observation in words: a model's narrative, the content, a prompt, a message; "" for a tool call.

    A tool whose output is its input did nothing but say it.
    """
    if observation.model and observation.narrative.strip():
        return observation.narrative.strip()
    if observation.words:
        return named(observation.words)
    if observation.content.strip():
        return named(observation.content.strip())
    data = observation.data
    if data.get("tool_name") == "conversation":
        return "\n".join(filter(None, (_text(data.get("tool_input")), _text(data.get("tool_output")))))
    if data.get("tool_name"):
        text = _text(data.get("tool_input"))
        return text if text == _text(data.get("tool_output")) else ""  # agent_observe stores an agent's words like this
    return _first_text(data, _PROSE_FIELDS)


def story_turn(observation: Observed) -> tuple[Turn, str]:
    """Returns the turn of an observation and its text, as a story reads them: a client can call it a decision."""
    text = prose(observation)
    return observation.turn, f"Decision:\n- {text}" if observation.kind == "decision" else text


def account(observation: Observed) -> str:
    """Returns the observation's prose, else its tool call in one line, else whatever short form it has."""
    if text := prose(observation) or _call(observation):
        return text
    values = {name: value for name, value in observation.data.items() if isinstance(value, str | int | float)}
    pairs = (
        f"{name}: {shortened(str(value)[:SCAN_CHARS], _TARGET_CHARS)}"
        for name, value in values.items()
        if name != "hookType"
    )
    return shortened(", ".join(pairs), SCAN_CHARS) or observation.narrative or observation.title


def headline(observation: Observed) -> str:
    """Returns what happened in one line: a model's title, the first sentence that was said, or what a tool was called
    for and how it went (`Bash `pytest`: 1 failed, 12 passed`)."""
    if observation.model and observation.title:
        return observation.title
    if text := prose(observation):
        return shortened(next(each_stated(text), text), HEADLINE_CHARS)
    return observation.call_headline or call_headline(observation) or shortened(account(observation), HEADLINE_CHARS)


def call_headline(observation: Observed) -> str:
    """Returns the headline of a tool call, from what was recorded alone; "" for anything else. Its document stores it,
    as looking through pages of output for how it went takes up to a tenth of a millisecond."""
    if not observation.data.get("tool_name") or prose(observation):
        return ""
    line = _call(observation, "" if observation.kind == "error" else _outcome(observation))
    return shortened(line, HEADLINE_CHARS)


def _outcome(observation: Observed) -> str:
    """The first new line that an edit wrote, or the line of a command's output with its result; "" for neither."""
    data = observation.data
    if observation.kind in MODIFYING:
        fields = _fields(data.get("tool_input"))
        written, before = _first_text(fields, _WRITTEN_FIELDS), _first_text(fields, _REPLACED_FIELDS)
        old_lines = {line.strip() for line in before[:SCAN_CHARS].splitlines()}
        new_lines = (line.strip() for line in written[:SCAN_CHARS].splitlines())
        line = next((line for line in new_lines if line and line not in old_lines), "")
        line = shortened(line, _GIST_CHARS).replace("`", "'")
        return f"`{line}`" if line else ""
    is_command = observation.kind == "command_run"
    command = _first_text(_fields(data.get("tool_input")), _TARGET_FIELDS) if is_command else ""
    if not is_command or _LOOKING.match(command):
        return ""
    output = told_by(data.get("tool_output"))[-_OUTPUT_CHARS:]
    last = max((match.start() for match in _TESTED.finditer(output)), default=-1)
    tested = output[output.rfind("\n", 0, last) + 1 :].split("\n", 1)[0] if last >= 0 else ""
    has_passed = tested and not _TESTS_FAILED.search(tested)
    reason = failure(output[last:] if has_passed else output)  # of what came after tests that passed
    return reason or shortened(tested.strip("=- "), _REASON_CHARS)


def failure(output: str) -> str:
    """Returns what an output says of a failure: how many tests failed, the first of them, and the line that says why
    (`1 failed: test_a.py::test_b: assert 3 == 4`); "" if nothing in it says that something failed."""
    text = "\n" + output[-_OUTPUT_CHARS:]
    lowered = text.lower()
    signs = [sign.strip("\n") for sign in _SIGNS if sign in lowered]
    if not signs:
        return ""
    pairs = zip(text.splitlines(), lowered.splitlines(), strict=False)
    suspects = [line.strip()[:_LINE_CHARS] for line, low in pairs if any(map(low.__contains__, signs))]
    lines = [_STAMP.sub("", line) for line in suspects[:_MOST_LINES] + suspects[_MOST_LINES:][-_MOST_LINES:]]
    counts = [count[0] for line in lines if (count := _TESTS_FAILED.search(_NOTHING.sub("", line)))]
    tests = [test for line in lines if (test := _FAILED_TEST.match(line))]
    test = max(tests, key=lambda test: "::" in test["name"], default=None)  # of pytest's two lists, the one with files
    blame, blamed = max(((_blame(line), line) for line in lines), key=lambda pair: pair[0], default=(0, ""))
    if not counts and test is None and blame < 3 and not any(map(_AFTERMATH.search, lines)):
        return ""
    named, listed = (test["name"], test["why"] or "") if test is not None else ("", "")
    is_listed = listed and not listed.endswith("...")
    why = listed if is_listed else re.sub(r"\A(?:E|ERROR:) +", "", blamed) if blame else ""
    if not named and not why:  # no more than the count
        return next((line.strip("=- ") for line in reversed(lines) if _TESTS_FAILED.search(line)), "")
    parts = [*counts[-1:], named, "" if named and (why in named or named in why) else why]
    return shortened(": ".join(filter(None, parts)), _REASON_CHARS)


def _blame(line: str) -> int:
    """How well a line of output says why something failed: 3 names an error, 2 tells of trouble, 1 what came of it."""
    if _CODE.match(line) or _FAILED_TEST.match(line) or _TESTS_FAILED.search(line):
        return 0
    plain = _NOTHING.sub("", line)
    if _AFTERMATH.search(plain):
        return 1
    return (
        3
        if _REASON_BEGINS.match(plain) or _REASON.search(plain)
        else 2 * any(map(plain.lower().__contains__, _TROUBLE))
    )


def is_call(text: str) -> bool:
    """Returns whether a text is a tool call as `account` and `headline` tell it, with how it went or without."""
    return _CALL.match(text) is not None


def is_call_alone(text: str) -> bool:
    """Returns whether a text is a tool call as `account` tells it, without a word of how it went."""
    return _CALL_ALONE.fullmatch(text) is not None


def _call(observation: Observed, outcome: str = "") -> str:
    """The tool and what it worked on, with the outcome or why it failed; "" without a tool."""
    data = observation.data
    tool, target = _text(data.get("tool_name")), data.get("tool_input")
    if not tool:
        return ""
    if fields := _fields(target):  # the file, command or question that the tool was given
        target = _first_text({name: _command_line(value) for name, value in fields.items()}, _TARGET_FIELDS)
    error = told_by(data.get("error")) or told_by(data.get("tool_output")) if observation.kind == "error" else ""
    reason = (failure(error) or max(error.splitlines(), key=_blame)) if error else ""
    ending = f" failed: {shortened(reason, _REASON_CHARS)}" if reason else f": {outcome}" if outcome else ""
    room = max(_LEAST_TARGET_CHARS, HEADLINE_CHARS - len(f"{tool} ``{ending}"))
    given = " ".join(_text(target)[:SCAN_CHARS].split()).replace("`", "'")
    given = _PAGING.sub("", given) if "|" in given or given.endswith("2>&1") else given
    target = shortened(given, min(_TARGET_CHARS, room))
    return f"{tool} `{target}`{ending}" if target else f"{tool}{ending}"


def _fields(tool_input: Any) -> dict[str, Any]:
    """The input fields of a tool, also of whole or cut JSON text, as hooks send for failed calls; else empty."""
    if isinstance(tool_input, str) and tool_input.startswith("{"):
        try:
            tool_input = msgspec.json.decode(tool_input)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pairs = _CUT_FIELD.findall(tool_input[:SCAN_CHARS])
            return {name: value.replace("\\n", "\n").replace('\\"', '"') for name, value in reversed(pairs)}
    return cast(dict[str, Any], tool_input) if isinstance(tool_input, dict) else {}


def _command_line(value: Any) -> Any:
    """A command that is a list of words, as one line without the shell that runs it; other values as they are."""
    if isinstance(value, list):
        return " ".join(word for word in cast(list[Any], value) if isinstance(word, str) and word not in _SHELLS)
    return value


def _first_text(fields: dict[str, Any], names: Iterable[str]) -> str:
    """The first of the named fields that holds a non-empty text; "" if none does."""
    return next((text for name in names if name in fields and (text := _text(fields[name]))), "")


def _text(value: Any) -> str:
    return named(value.strip()) if isinstance(value, str) else ""
