"""A summary that goes on where an earlier one ended, whose observations are no longer there to be read. Pure."""

from collections.abc import Iterable

from projections.condensing.sentences import shortened
from projections.condensing.sessions import CONCEPTS, DECISIONS, FILES, NARRATIVE_CHARS, Digest


def continued(earlier: Digest, later: Digest, observation_count: int) -> Digest:
    """Returns the digest of both: the earlier title, then what was told before, then what came after.

    Each tells at most half of a full narrative where both do not fit, so that a session that is taken up again and
    again still says how it began; of lists the newest stay.
    """
    return Digest(
        title=earlier.title or later.title,
        narrative=_both(earlier.narrative, later.narrative),
        decisions=_newest((*earlier.decisions, *later.decisions), DECISIONS),
        files=_newest((*earlier.files, *later.files), FILES),
        concepts=_newest((*earlier.concepts, *later.concepts), CONCEPTS),
        observation_count=observation_count,
    )


def _both(before: str, after: str) -> str:
    if len(before) + len(after) + 1 <= NARRATIVE_CHARS:
        return " ".join(part for part in (before, after) if part)
    half = NARRATIVE_CHARS // 2 - 1
    kept = max(half, NARRATIVE_CHARS - 1 - len(after))
    return f"{shortened(before, kept)} {shortened(after, max(half, NARRATIVE_CHARS - 1 - len(before)))}"


def _newest(found: Iterable[str], most: int) -> list[str]:
    return list(dict.fromkeys(found))[-most:]
