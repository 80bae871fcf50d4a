"""One answer of a cluster made of those of its primaries. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

SEPARATOR = "|"


def merged_info(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """INFO: of whole numbers the greatest, of the rest what the first primary says.

    So memory is that of the fullest primary, which is the one that will refuse writes, and something is under way
    (`aof_rewrite_in_progress`) when it is on any of them.
    """
    merged: dict[str, Any] = {}
    for answer in answers:
        for name, value in answer.items():
            if name not in merged:
                merged[name] = value
            elif isinstance(value, int) and isinstance(merged[name], int):
                merged[name] = max(merged[name], value)
    return merged


def merged_config(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """CONFIG GET: the value that all have; different ones side by side, `always|everysec`."""
    names = dict.fromkeys(name for answer in answers for name in answer)
    return {
        name: SEPARATOR.join(dict.fromkeys(str(answer[name]) for answer in answers if name in answer)) for name in names
    }


def first(answers: Sequence[Any]) -> Any:
    """The first primary's."""
    return answers[0] if answers else None


MERGED: dict[str, Callable[[Sequence[Any]], Any]] = {"INFO": merged_info, "CONFIG GET": merged_config}
"""By command; for the others the first primary's answer stands for all."""
