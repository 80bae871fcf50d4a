"""How sure a lesson is (said again, faded, dropped), and which lessons apply when a tool is about to be used.

Plain functions of their arguments, with agentmemory's formulas; the caller passes the time.
"""

from datetime import UTC, datetime, timedelta

from ingest.patterns import found_in

WEEK = timedelta(weeks=1)
REINFORCEMENT_GAIN = 0.1
"""Share of the remaining doubt that one repetition removes."""
DECAY_RATE = 0.05
"""Lost a week."""
DECAY_FLOOR = 0.05
RETIRE_AT = 0.1
DAILY_FADE = 0.01
"""How much a day without reinforcement adds to the divisor of a lesson's recall score."""
SEVERITIES = ("critical", "warning", "info")
"""Most urgent first."""
PREVIEW_CHARS = 1_000
"""As much of a tool's input as agent-memory's hooks send; a longer one is searched no further, so that
all patterns of a project stay within the milliseconds a hook waits."""


def strengthened(confidence: float) -> float:
    """Returns the confidence after one more reinforcement, at most 1."""
    return min(1.0, confidence + REINFORCEMENT_GAIN * (1 - confidence))


def weeks_since(last: datetime, now: datetime) -> float:
    """Returns the weeks from `last` (decayed, else reinforced, else created) to `now`, fractions kept; 0 if later."""
    return max(0.0, (now - last) / WEEK)


def decayed(confidence: float, rate: float, weeks: float) -> float:
    """Returns the confidence after `weeks` at `rate` a week, 3 decimals; unchanged in the first week."""
    if weeks < 1:
        return confidence
    return round(max(DECAY_FLOOR, confidence - rate * weeks), 3)


def is_retired(confidence: float, reinforcements: int) -> bool:
    """Returns whether a lesson with this decayed confidence is dropped: nobody ever confirmed it and it has faded."""
    return reinforcements == 0 and confidence <= RETIRE_AT


def fades_at(confidence: float, rate: float, last: datetime) -> datetime:
    """Returns when a lesson that nobody confirms has faded to RETIRE_AT, a week after `last` at the earliest.

    Rounding may make `is_retired` true some minutes before.
    """
    try:
        return last + WEEK * max(1.0, (confidence - RETIRE_AT) / rate)
    except OverflowError:  # an event that nobody checked may say anything
        return datetime.max.replace(tzinfo=UTC)


def recall_score(confidence: float, relevance: float, age: timedelta) -> float:
    """Returns the rank of a lesson `age` after it was reinforced (else created), 3 decimals."""
    days = max(0.0, age / timedelta(days=1))
    return round(confidence * relevance / (1 + DAILY_FADE * days), 3)


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
