"""Mistakes in the command line, as one line. Imports nothing of ours: a mistyped command is answered at once."""

import re
from difflib import get_close_matches
from typing import Any

_INVALID = re.compile(r"Invalid value for '?([\w-]+)'?(?: / '[^']*')?: (?:Value error, )?(.*)")
_CHOICES = re.compile(r"'(.*)' is not one of (.*)\.")
_REASONS = {
    r"Input should be greater than or equal to (.*)": r"must be at least \1",
    r"Input should be less than or equal to (.*)": r"must be at most \1",
    r"Input should be a valid integer.*": "must be a whole number",
    r"Input should be a valid number.*": "must be a number",
}


def usage_error(error: Any) -> str:
    """What typer says of a mistake, with the closest valid name, or where the help is."""
    message = " ".join(error.format_message().split())
    if near := getattr(error, "possibilities", None):
        return f"{error.message}; did you mean {' or '.join(sorted(near))}?"
    if match := _INVALID.fullmatch(message):
        name, reason = match.groups()
        if choices := _CHOICES.fullmatch(reason):
            value, names = choices[1], re.findall("'([^']+)'", choices[2])
            near = get_close_matches(value, names, n=1)
            return f"{name}: {value!r} is not one of {', '.join(names)}" + (
                f"; did you mean {near[0]}?" if near else ""
            )
        for pattern, words in _REASONS.items():
            reason = re.sub(pattern, words, reason)
        message = f"{name} {reason}" if reason.startswith("must ") else f"{name}: {reason}"
    message = message.removeprefix("Invalid value: ")
    context = getattr(error, "ctx", None)
    return message if message.endswith("?") or context is None else f"{message} (see `{context.command_path} --help`)"
