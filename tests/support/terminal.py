"""Commands of `mnemolog` at a terminal of their own: what they show there, what they ask, and what is answered."""

import os
import pty
import re
import subprocess
from collections.abc import Mapping

from tests.support.commands import PATIENT_S, ROOT, command_line, environment

SIZE = {"TERM": "xterm", "COLUMNS": "120", "LINES": "50"}
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07)")


def at_terminal(variables: Mapping[str, str], *arguments: str, answers: Mapping[str, str]) -> tuple[int, str]:
    """Exit code and screen text of a command; each key of `answers` is waited for, and then its value is typed."""
    ours, its = pty.openpty()
    try:
        process = subprocess.Popen(
            command_line(*arguments), env=environment(**{**variables, **SIZE}), cwd=ROOT,
            stdin=its, stdout=its, stderr=its, start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(its)
    shown, waiting = "", dict(answers)
    try:
        while block := _read(ours):
            shown += block.decode(errors="replace")
            for question in [item for item in waiting if item in _ESCAPES.sub("", shown)]:
                os.write(ours, waiting.pop(question).encode())
        code = process.wait(PATIENT_S)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return code, _ESCAPES.sub("", shown)


def _read(terminal: int) -> bytes:
    """What is shown next; nothing once the command has ended."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""
