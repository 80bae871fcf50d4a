"""What of a derived text its remaining sources still say.

Guarantee: pure. Nothing is kept that no remaining source says in the same words; spacing, case and the mark at the end
of a sentence aside.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from projections.condensing.claims import Claim
from projections.condensing.sentences import pieces, statements

_MARKER = re.compile(r"\A(?:[-*+•]|\d{1,3}[.)])\s+")
_END = " .!?…,;:"


class Left(Struct, frozen=True):
    """What is left of a text, and the sources that say it."""

    content: str
    sources: list[str]


def says(text: str, said: str) -> bool:
    """Returns whether a text has these words, one after another; False for no words at all."""
    wanted = _plain(said).strip(_END)
    if not any(character.isalnum() for character in wanted):
        return False
    return re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", _plain(text)) is not None


def sayers(said: str, texts: Mapping[str, str]) -> list[str]:
    """Returns the sources whose text has these words."""
    return [source for source, text in texts.items() if says(text, said)]


def confirmed(content: str, texts: Mapping[str, str]) -> Left | None:
    """Returns the content with the sources that say some of it; None unless all of it is said by some of them."""
    found: dict[str, None] = {}
    for piece in _pieces(content.splitlines()):
        said_by = sayers(piece, texts)
        if not said_by:
            return None
        found.update(dict.fromkeys(said_by))
    return Left(content, list(found)) if found else None


def cut(content: str, texts: Mapping[str, str], *, heading: bool) -> Left | None:
    """Returns the content without what no source says, with the sources of the rest; None if nothing is left.

    The first line of a text with a `heading` stays, if a source says what it names behind its first word.
    """
    first, *lines = content.splitlines() or [""]
    head = [first] if heading and sayers(first.partition(" ")[2], texts) else []
    found: dict[str, None] = {}
    kept: list[str] = []
    for line in lines if heading else [first, *lines]:
        marker = found_marker[0] if (found_marker := _MARKER.match(line)) else ""
        left: list[str] = []
        for piece in _pieces([line]):
            if said_by := sayers(piece, texts):
                left.append(piece)
                found.update(dict.fromkeys(said_by))
        if left:
            kept.append(marker + " ".join(left))
    if not kept or (heading and not head):
        return None
    return Left("\n".join(head + kept), list(found))


def reworded(content: str, texts: Mapping[str, str], threshold: float) -> Left | None:
    """Returns what the first source that states nearly the same says instead, with those that say that."""
    claim = Claim.of(content)
    for text in texts.values():
        for stated in statements(text):
            if claim.is_said_by(Claim.of(stated), threshold):
                return Left(stated, sayers(stated, texts))
    return None


def _pieces(lines: Iterable[str]) -> Sequence[str]:
    return [piece for line in lines for piece in pieces(_MARKER.sub("", line)) if piece]


def _plain(text: str) -> str:
    return " ".join(text.casefold().replace("`", "").split())
