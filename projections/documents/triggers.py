"""Which lessons speak up when a tool is about to be used. Pure."""

from ingest.patterns import found_in

SEVERITIES = ("critical", "warning", "info")
"""Most urgent first."""
PREVIEW_CHARS = 1_000
"""As much of a tool's input as agent-memory's hooks send; a longer one is searched no further, so that
all patterns of a project stay within the milliseconds a hook waits."""


def matches(lesson_tool: str, lesson_pattern: str, tool_name: str, preview: str) -> bool:
    """Whether a lesson is about this tool call: its tool is this one or unset, its pattern found or unset.

    Tool names are compared case by case, patterns ignore case; a stored pattern that does not compile matches nothing.
    """
    if lesson_tool and lesson_tool != tool_name:
        return False
    return not lesson_pattern or found_in(lesson_pattern, preview[:PREVIEW_CHARS])


def severity_rank(severity: str) -> int:
    """The place of a severity among SEVERITIES, most urgent first; an unknown one comes last."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)
