"""A server's refusal in words of the command line: options and arguments in the place of fields and types."""

import re

_NAMES = {
    "agent_id": "--agent",
    "content": "the text",
    "ids": "the ids",
    "label": "the label",
    "memory_type": "--type",
    "query": "the query",
    "session_id": "--session",
    "title": "the title",
    "token_budget": "--tokens",
    "tool_name": "the tool",
    "user_id": "--user",
}
"""What commands call the fields that they do not call by their own name."""
_PLAIN = [
    (re.compile(pattern), words)
    for pattern, words in (
        (r"Object missing required field .*", "is needed"),
        (r"Invalid enum value (.*)", r"cannot be \1"),
        (r"Invalid RFC3339 encoded datetime", "must be a time such as 2026-01-31T12:00:00Z"),
        (r"Expected `str` of length >= 1", "must not be empty"),
        (r"Expected `str` of length <= (.*)", r"may have at most \1 characters"),
        (r"Expected `array` of length >= 1", "must not be empty"),
        (r"Expected `array` of length <= (.*)", r"may have at most \1 values"),
        (r"Expected `(?:int|float)` >= (.*)", r"must be at least \1"),
        (r"Expected `(?:int|float)` > (.*)", r"must be more than \1"),
        (r"Expected `(?:int|float)` <= (.*)", r"must be at most \1"),
        (r"Expected `(?:int|float)` < (.*)", r"must be less than \1"),
        (r"Expected `int.*", "must be a whole number"),
        (r"Expected `float.*", "must be a number"),
        (r"Expected `bool.*", "must be true or false"),
        (r"Expected `str` matching regex (.*)", r"must match \1"),
    )
]


def worded(message: str, field: str | None) -> str:
    """The message for people, beginning with what they typed; as it is where it is about none of that."""
    if not field:
        return message
    name = re.split(r"[.\[]", field)[0]
    option = _NAMES.get(name, "--" + name.replace("_", "-"))
    for pattern, words in _PLAIN:
        if found := pattern.fullmatch(message):
            return f"{option} {found.expand(words)}"
    return f"{message} ({option})"
