"""Extraction from text: sentences, near-duplicates, and the most central sentences.

Guarantee: pure, deterministic and extractive: the output occurs in the input, except for whitespace. Work grows with
the input, not with its square, unless most sentences share their rarest words.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ingest.secrets.scrub import is_only_marks
from projections.text.terms import SENTENCE_GAP, terms

ALIKE = 0.7
"""Jaccard similarity from which two sentences say the same (memex's, and that of superseding memories)."""
FULL_SENTENCE = 8
"""Index terms; shorter sentences count as this long, or the most central of a dialogue are greetings and praise."""
SCAN_CHARS = 2_000
"""Of one text: by then a longer one has said what it is about."""
STATEMENT_CHARS = 300
"""A longer statement is cut: it is a list or a log line, and its beginning says what it is."""
SENTENCE_CHARS = 260
"""Of a sentence of a summary."""
_SHORTEST = 12
"""Characters; shorter is "Thanks!" or "All done."."""
_END = " .!?…。！？,;:"
_ROUNDING = 1e-9
"""Taken off before rounding up, because 0.7 * 30 may be a hair above 21; a probe too many misses nothing."""

_SENTENCE_GAP = re.compile(SENTENCE_GAP)
_ASCII_GAP = re.compile(r"\s(?<=[.!?]\s)\s*")
"""The same in ASCII: begins with what is searched for, which takes a tenth of the time."""
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LINE_END = re.compile(r"\n(?!\s*[a-z])")
"""Ends a statement unless the next line goes on in lower case, as wrapped prose does."""
_LEANING = re.compile(
    r"(?:(?:unfortunately|however|therefore|so|but|also),?\s+)?(?:its?|this|that|these|those|they|their|he|his|she|her)\b",
    re.IGNORECASE,
)
"""Begins a sentence whose subject is in the sentence before it."""
_MARKER = re.compile(r"\A(?:[-*+•>]|\d{1,3}[.)]|#{1,6})\s+")

_COURTESY = re.compile(
    r"(?:(?:oh|well|yes|no|sure|ok(?:ay)?|great|good|perfect|nice|hi|hello|hey|bye|please|welcome|thanks|thank you"
    r"|got it|you['’]?re welcome|no problem|(?:that )?sounds (?:good|great)|i (?:understand|see)|take care|go ahead"
    r"|that['’]?s (?:all|fine|great))[\s,.!–—-]*)+"
    r"|(?:\w+[,!]? )?(?:thanks?|safe travels|have a (?:great|nice|good|safe))\b[^\d`_/]{,80}"
    r"|(?:if (?:you|there)\b[^\d`_/.]{,100},\s*)?(?:please\s+)?(?:just )?(?:feel free to|do(?: not|n['’]t) hesitate to"
    r"|let me know if you (?:have|need|want|would))\b[^\d`_/]{,80}"
    r"|(?:is there )?anything else\b[^\d`_/]{,60}",
    re.IGNORECASE,
)


def is_courtesy(sentence: str) -> bool:
    """Returns whether an English sentence is only polite: a greeting, thanks, a wish, an offer to help."""
    return _COURTESY.fullmatch(sentence.strip()) is not None


def pieces(text: str) -> list[str]:
    """Returns the text cut after `.`, `!` or `?` followed by white space, and after `。！？`, each piece trimmed."""
    return (_ASCII_GAP if text.isascii() else _SENTENCE_GAP).split(text.strip())


def statements(text: str) -> list[str]:
    """Returns what the first `SCAN_CHARS` state: sentences and list items on one line each, code blocks left out.

    Questions and the very short are not statements; list markers are removed, long ones cut with an ellipsis.
    """
    sentences: list[str] = []
    for line in _LINE_END.split(_FENCED.sub("\n", text[:SCAN_CHARS])):
        for piece in pieces(_MARKER.sub("", line.strip(), count=1)):
            sentence = shortened(piece, STATEMENT_CHARS)
            if not _is_short(sentence) and not sentence.endswith(("?", "？")) and not is_only_marks(sentence):
                sentences.append(sentence)
    return sentences


def stated(text: str, limit: int = SENTENCE_CHARS) -> list[str]:
    """Returns the sentences and list items of the first `SCAN_CHARS`, questions too, without code blocks and emphasis.

    One that begins with "it" or "this" stays with the sentence before it, as far as both fit into `limit`; a longer
    one is cut with an ellipsis. The very short, and those that only introduce a list, are left out.
    """
    return list(each_stated(text, limit))


def each_stated(text: str, limit: int = SENTENCE_CHARS) -> Iterator[str]:
    """Yields what `stated` returns: the first without reading the rest."""
    for _, sentence in each_headed(text, limit):
        yield sentence


def each_headed(text: str, limit: int = SENTENCE_CHARS, *, chars: int = SCAN_CHARS) -> Iterator[tuple[str, str]]:
    """Yields the sentences of `each_stated` in the first `chars` characters, each after the heading or the line with a
    colon that introduces its list; without one, after ""."""
    before, heading, text = ("", ""), "", text[:chars]
    for line in _LINE_END.split(_FENCED.sub("\n", text) if "```" in text else text):
        line = line.strip()
        marker = _MARKER.match(line)
        plain = line[marker.end() :] if marker else line
        plain = plain.replace("**", "")
        introduces = plain.endswith((":", "：")) or line.startswith("#")
        if introduces or (plain and not marker):
            heading = plain if introduces else ""
        for piece in pieces(plain):
            sentence = shortened(piece, limit)
            if _is_short(sentence) or sentence.endswith((":", "：")) or is_only_marks(sentence):
                continue
            if before[1] and _LEANING.match(sentence) and len(before[1]) + 1 + len(sentence) <= limit:
                before = (before[0], f"{before[1]} {sentence}")
            else:
                if before[1]:
                    yield before
                before = (heading, sentence)
    if before[1]:
        yield before


def _is_short(text: str) -> bool:
    # a Chinese, Japanese or Korean character says as much as two letters
    return len(text) < _SHORTEST and len(text) + sum(map("\u2e80".__le__, text)) < _SHORTEST


def shortened(text: str, limit: int) -> str:
    """Returns the text on one line, at most `limit` characters; cut between words if it can be, with an ellipsis."""
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    cut = text[: max(0, limit - 1)]
    space = cut.rfind(" ")
    return (cut[:space] if space > limit // 2 else cut).rstrip(" ,;:") + "…"


def closed(sentence: str) -> str:
    """Returns the sentence with a full stop unless it already ends like one."""
    return sentence if sentence.endswith((*".!?…。！？",)) else sentence + "."


def says(text: str, phrase: str) -> bool:
    """Returns whether a text has these words, one after another; False for no words at all."""
    return has_words(plain(text), plain(phrase))


def has_words(text: str, phrase: str) -> bool:
    """Returns what `says` does, of a text and a phrase that are `plain` already."""
    words = phrase.strip(_END)
    start = text.find(words) if any(map(str.isalnum, words)) else -1
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(words) : start + len(words) + 1]
        if not any(letter.isalnum() or letter == "_" for letter in before + after):
            return True
        start = text.find(words, start + 1)
    return False


def plain(text: str) -> str:
    """Returns a text as phrases are compared: on one line, without case and backticks."""
    return " ".join(text.casefold().replace("`", "").split())


def term_set(text: str) -> frozenset[str]:
    """Returns the distinct index terms of a text: stemmed, without stop words."""
    return frozenset(terms(text))


def alike_groups(word_sets: Sequence[frozenset[str]], threshold: float) -> list[list[int]]:
    """Returns the indices in groups: each set joins the earliest leader with Jaccard >= `threshold`, or leads one.

    Groups are in the order of their leaders, members ascending; an empty set is alone. The prefix filter of
    `projections.text.similarity`, with the rarest words first, finds every leader without comparing all pairs.
    """
    spread = Counter(word for words in word_sets for word in words)
    # Common words have the low bits, so that most masks are short.
    bits = {word: 1 << rank for rank, (word, _) in enumerate(spread.most_common())}
    masks = [sum(map(bits.__getitem__, words)) for words in word_sets]
    groups: dict[int, list[int]] = {}
    leader_of: dict[int, int] = {}
    leaders_with: defaultdict[str, list[int]] = defaultdict(list)
    for index, words in enumerate(word_sets):
        mask = masks[index]
        if mask not in leader_of or not mask:
            # the rarest words, one of which every set that reaches the threshold has among its own rarest
            rarest_first = sorted(words, key=lambda word: (spread[word], word))
            probe = rarest_first[: len(words) - math.ceil(threshold * len(words) - _ROUNDING) + 1]
            rivals = sorted({other for word in probe for other in leaders_with[word]})
            leader_of[mask] = _first_alike(mask, ((other, masks[other]) for other in rivals), threshold, index)
            if leader_of[mask] == index:
                for word in probe:
                    leaders_with[word].append(index)
        groups.setdefault(leader_of[mask], []).append(index)
    return list(groups.values())


def distinct(word_sets: Sequence[frozenset[str]], threshold: float = ALIKE) -> list[int]:
    """Returns the indices, ascending, of the sets that resemble no earlier selected one; empty sets are selected."""
    return [group[0] for group in alike_groups(word_sets, threshold)]


def centrality(term_lists: Sequence[Sequence[str]], at_least: int = 1) -> list[float]:
    """Returns for each list how frequent its terms are in all lists, on average; 0 for an empty list.

    A list shorter than `at_least` is averaged over that many, so that one frequent word alone is not the best sentence.
    """
    frequency = Counter(term for words in term_lists for term in words)
    return [sum(frequency[term] for term in words) / max(len(words), at_least, 1) for words in term_lists]


def leading(texts: Sequence[Sequence[str]]) -> list[tuple[float, str]]:
    """Returns for each text, given as its sentences (at least one), the most central of them and its `centrality`."""
    scores = iter(centrality([terms(sentence) for text in texts for sentence in text], FULL_SENTENCE))
    return [max([(next(scores), sentence) for sentence in text], key=lambda scored: scored[0]) for text in texts]


def best(scores: Sequence[float], count: int) -> list[int]:
    """Returns the indices, ascending, of the `count` highest scores; of equal ones the earlier."""
    return sorted(sorted(range(len(scores)), key=lambda index: -scores[index])[: max(0, count)])


def fitting(lines: Sequence[str], limit: int, separator: str) -> Iterator[str]:
    """Yields the lines, in order, that together stay within `limit` characters when joined; skips one too long."""
    room = limit + len(separator)
    for line in lines:
        if len(line) + len(separator) <= room:
            room -= len(line) + len(separator)
            yield line


def _first_alike(mask: int, rivals: Iterable[tuple[int, int]], threshold: float, default: int) -> int:
    """The first rival whose Jaccard similarity reaches the threshold. A set is a mask, a bit a word: that is fast."""
    size = mask.bit_count()
    for rival, other in rivals:
        shared = (mask & other).bit_count()
        if shared / (size + other.bit_count() - shared) >= threshold:
            return rival
    return default
