"""Long text in parts that fit the model's window, so that what is said late can be found by meaning too.

Bound: at most MAX_CHUNKS parts a document (about 4,800 words of English prose). Of a longer text the parts are spread
from its beginning to its end; what is between them gets no vector, and the lexical index covers it. Work is bounded the
same way, however long the text is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

MAX_CHUNKS = 32
MAX_WORDS = 180
# MiniLM's window is 256 tokens, two of them markers; the rest is slack for what `estimated_tokens` gets wrong.
MAX_TOKENS = 225
OVERLAP = 20  # words shared by neighbours: a sentence cut at a boundary is whole in one of them, mostly

LONGEST_WORD = 40
WORD = re.compile(rf"\S{{1,{LONGEST_WORD}}}")  # a longer run without spaces is split by characters
RUN = re.compile(r"[A-Za-z]+|[A-Za-z0-9]+|[^\sA-Za-z0-9]")
SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’)\]]*$")


@dataclass(frozen=True)
class Word:
    """A run of characters: where it stands in the text, its estimated tokens, whether a sentence or line ends here."""

    start: int
    end: int
    tokens: int
    closes: bool


def chunk(text: str, max_words: int = MAX_WORDS) -> list[str]:
    """Overlapping slices of the text in order, each within the window; a text that fits comes back unchanged.

    Of a text of more than MAX_CHUNKS slices so many, at equal distances. Blank text gives no slice. Where possible a
    slice ends with a sentence or a line.
    """
    if max_words < 1:
        raise ValueError(f"max_words is at least 1, not {max_words}")
    words = read_words(text, MAX_CHUNKS * max_words + 1)
    if not words:
        return []
    parts: list[str] = []
    first = 0
    while len(parts) < MAX_CHUNKS:
        last = end_of_part(words, first, max_words)
        if first == 0 and last == len(words):
            return [text]
        parts.append(text[words[first].start : words[last - 1].end])
        if last == len(words):
            return parts
        first = start_of_next(words, first, last, max_words)
    return _spread(text, max_words)


def _spread(text: str, max_words: int) -> list[str]:
    """MAX_CHUNKS slices, the first at the beginning of the text and the last at its end."""
    longest = max_words * LONGEST_WORD + max_words
    end = read_words(text[-longest:], longest)
    last = len(end)
    while last and end_of_part(end, last - 1, max_words) == len(end):
        last -= 1
    final = text[-longest:][end[last].start :]
    step = (len(text) - len(final)) // (MAX_CHUNKS - 1)
    parts: list[str] = []
    for place in range(0, step * (MAX_CHUNKS - 1), step):
        around = text[place : place + longest]
        cut = place > 0 and not text[place - 1].isspace()  # within a word
        words = read_words(around, max_words + 2)[cut:] or read_words(around, max_words + 2)
        parts.append(around[words[0].start : words[end_of_part(words, 0, max_words) - 1].end])
    return [*parts, final]


def estimated_tokens(word: str) -> int:
    """How many word pieces a run of characters becomes, at a guess that is rarely too low for English and code."""
    return sum(run_tokens(run) for run in RUN.findall(word))


def run_tokens(run: str) -> int:
    if not run.isascii():
        return 1
    rare = len(run) > 15 or not run.isalpha()  # hashes, numbers, base64: nearly two characters a piece
    return -(-len(run) // (2 if rare else 7))


def read_words(text: str, limit: int) -> list[Word]:
    return [
        Word(
            start=match.start(),
            end=match.end(),
            tokens=estimated_tokens(match[0]),
            closes=text[match.end() : match.end() + 1] == "\n" or SENTENCE_END.search(match[0]) is not None,
        )
        for match in islice(WORD.finditer(text), limit)
    ]


def end_of_part(words: Sequence[Word], first: int, max_words: int) -> int:
    """Index behind the last word of the part that starts at `first`: at least one word, at best whole sentences."""
    end, tokens = first, 0
    while end < len(words) and end - first < max_words and (end == first or tokens + words[end].tokens <= MAX_TOKENS):
        tokens += words[end].tokens
        end += 1
    if end == len(words):
        return end
    earliest = first + 2 * (end - first) // 3
    return next((at + 1 for at in range(end - 1, earliest, -1) if words[at].closes), end)


def start_of_next(words: Sequence[Word], first: int, last: int, max_words: int) -> int:
    """Index of the next part's first word: a little before `last`, but always behind `first`."""
    overlap = min(OVERLAP, max_words // 5, (last - first) // 3)
    return max(last - overlap, first + 1)
