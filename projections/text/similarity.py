"""How similar texts are: whether two state the same, how many tokens they share, which results repeat another. Pure.

Two texts state the same when their words are equal, in the same order, but for case, punctuation, spacing, plurals and
the function words below. A number, name, unit, negation or any other word that only one has makes them two statements.

A signature is a text's set of distinct tokens in one fixed order. Two sets whose Jaccard similarity exceeds a threshold
share a token among the first few of each (prefix filter: Chaudhuri, Ganti, Kaushik 2006; Bayardo, Ma, Srikant 2007),
and two tokens among one more (Wang, Li, Feng 2012), so an index from those few tokens, or pairs of them, to texts finds
every match without scanning. Any order that both sides share is correct; long tokens come first, because they are rare
without asking a corpus, and a stable hash breaks ties. Short texts are filed by pairs of tokens: in 100,000 memories of
one project a thousand say "configuration", and hardly any two say two such words by chance. Long ones, which would have
too many pairs, are filed by single tokens.

Results are compared by index terms, which have no order and no "not": the texts decide whether two say the same.
"""

import math
import re
import unicodedata
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache, wraps
from hashlib import blake2b
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np

from projections.kernel.module import native
from projections.text.cues import DATE_TERMS
from projections.vectors.columns import TermRows

REMEMBERED, SHORT = 1_024, 2_000
"""Texts whose words, tokens and keys are cached, and the characters of the longest: a fold asks for them several times.
At most 32 MB."""
LONG = 20_000
"""Characters that are read word by word: some 10 ms. The rest is one word, compared as it is."""


Result = TypeVar("Result")


def remembered(function: Callable[[str], Result]) -> Callable[[str], Result]:
    """The function, with the results of the last REMEMBERED short texts cached."""
    cached = lru_cache(maxsize=REMEMBERED)(function)

    @wraps(function)
    def remembering(text: str) -> Result:
        return cached(text) if len(text) <= SHORT else function(text)

    return remembering


def _words_in(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTION_WORDS = (
    _words_in("a an the is are that just please"),
    _words_in("der die das den dem des ein eine einen einem einer eines ist sind"),
    _words_in("el la los las un una unos unas es está están"),
    _words_in("le la les l un une"),
    _words_in("это"),
    _words_in("的 了"),
)
"""English, German, Spanish, French, Russian, Chinese. A text loses those of the language that it has most of: "is" goes
from "Ada's son is ill", and "son", which is Spanish as well, stays. Prepositions, tenses and auxiliaries are facts.
"""
_ANY_FUNCTION_WORD = frozenset[str]().union(*FUNCTION_WORDS)
NEGATIONS = _words_in(
    "no not none never nothing nobody neither nor without cannot kein keine keinen keinem keiner keines nicht nie"
    " niemals nichts ohne nunca nada nadie ningún ninguna sin tampoco ne n pas jamais rien aucun aucune sans plus"
    " не нет никогда ни без 不 没 沒 無 无 未 非 別 别 勿"
)
UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Characters of scripts without spaces, for a regular expression: each is a word."""
_CHARACTER = re.compile(f"[{UNSPACED}]")
_CHUNK = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}\u3001-\u303f\u30fb]+")
_OPENING = re.compile(r"^(?:[\"'`“”„‘’‚«»‹›(\[{¿¡…*#|•–—]|[.,;:](?!\w)|_+(?=\w))+")
# a quote mark behind a number is a unit: minutes, inches
_CLOSING = re.compile(r"(?:(?<!\d)[\"'`”“’]|[.,;:!?…»›)\]}*|–—])+$")
_DASH = re.compile(r"[–—…]|--+(?!\w)|(?<=\w)--+")
_COMPOUND = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
_MEASURE = re.compile(r"([+-]?\d[\d.,]*)([^\W\d_]+|[%€$£¥°]\w*)")
_IDENTIFIER = re.compile(r"[\d_/@\\=<>$€£¥%°+~^&]|\w[.:]\w|[a-z][A-Z]")
_CAPITALS = _words_in("it us who am or in me")
"""Words that name something when they are in capitals, and something else when they are not."""
_SHORTENED = {"ca": "can", "wo": "will", "sha": "shall"}
_UNIT_CHARS = 3
"""Of a unit in which capitals count: Mb is not MB."""


class Word(NamedTuple):
    """A word as it is compared: `text` without case, `stem` also without the ending of a plural.

    An `exact` word is not the plural of another: a name, an identifier. `named` are those, numbers and units.
    """

    text: str
    stem: str
    exact: bool = False
    named: bool = False

    @property
    def fact(self) -> str:
        """What is compared when only facts are: of a name the whole word."""
        return self.text if self.named else self.stem


def states_the_same(one: str, other: str, *, in_any_order: bool = False) -> bool:
    """Whether two texts differ in nothing but case, punctuation, spacing, plurals and function words, or also order."""
    words, others = words_of(one), words_of(other)
    if in_any_order:
        words, others = sorted(words, key=_by_stem), sorted(others, key=_by_stem)
    return len(words) == len(others) and all(
        a.text == b.text or (a.stem == b.stem and not a.exact and not b.exact)
        for a, b in zip(words, others, strict=True)
    )


def _by_stem(word: Word) -> tuple[str, str]:
    return word.stem, word.text


def statement_key(text: str) -> str:
    """Returns 16 hex digits that are equal for texts that state the same, and hardly ever for others."""
    stems = "\0".join(word.stem for word in words_of(text))
    return blake2b(stems.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def differ_in_facts(one: str, other: str) -> bool:
    """Whether texts of much the same words differ in a number, name, unit or negation, or in the order of these.

    In a script without spaces every character counts: names cannot be told apart there.
    """
    both = words_of(one), words_of(other)
    facts = NEGATIONS.union(word.fact for words in both for word in words if word.named)
    first, second = ([word.fact for word in words if word.fact in facts] for words in both)
    return first != second


@remembered
def words_of(text: str) -> tuple[Word, ...]:
    """The words that a text states something with, in their order; never none."""
    text, rest = text[:LONG], text[LONG:]
    text = text if text.isascii() else unicodedata.normalize("NFKC", text).replace("’", "'").replace("−", "-")
    has_case = not text.isupper()  # in a text of capitals, they mean nothing
    tokens = list(_split_tokens(text))
    present = [word for token, _ in tokens if (word := token.casefold()) in _ANY_FUNCTION_WORD]
    ignored = max(FUNCTION_WORDS, key=lambda words: sum(word in words for word in present)) if present else ()
    words: list[Word] = []
    begins, after_number = True, False
    for token, ends in tokens:
        folded = token.casefold()
        capital = has_case and token[0].isupper()
        # "A" and "The" at the beginning of a sentence are articles, elsewhere names
        if folded not in ignored or (capital and not (begins and (len(token) == 1 or token[1:].islower()))):
            words.append(_word(token, folded, capital, after_number))
        begins, after_number = ends, token[-1].isdigit()
    if rest:
        words.append(Word(rest, rest, exact=True, named=True))
    return tuple(words) or (Word(bare := " ".join(text.casefold().split()), bare),)


def _word(token: str, folded: str, capital: bool, after_number: bool) -> Word:
    if token.isalpha() and not capital and not after_number:
        return Word(folded, _stem(folded), named=len(token) == 1 and _CHARACTER.match(token) is not None)
    mixed = any(map(str.isdigit, token)) and not token.islower() and not token.isupper()
    name_by_capitals = capital and folded in _CAPITALS and token.isupper()
    if mixed or name_by_capitals or (after_number and len(token) <= _UNIT_CHARS):
        return Word(token, token, exact=True, named=True)  # a1B and A1b, IT and it, MB and Mb
    if _IDENTIFIER.search(token):
        return Word(folded, folded, exact=True, named=True)
    return Word(folded, _stem(folded), exact=capital or not token.isalpha(), named=capital or after_number)


def _split_tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Tokens without punctuation, each with whether a sentence ends after it; a question mark is a token."""
    for chunk in _CHUNK.findall(_DASH.sub(" ", text)):
        if chunk.isalpha():
            yield chunk, False
            continue
        opened = _OPENING.sub("", chunk)
        closed = _CLOSING.sub("", opened)
        mark = opened[len(closed) :]
        parts = _parts(closed) if closed.strip("-") else ()
        for place, part in enumerate(parts, 1):
            yield part, place == len(parts) and any(sign in mark for sign in ".!:")
        if "?" in mark:
            yield "?", True


def _parts(token: str) -> tuple[str, ...]:
    if measure := _MEASURE.fullmatch(token):
        return (measure[1], measure[2])
    if _COMPOUND.fullmatch(token):
        return tuple(token.split("-"))
    base, apostrophe, rest = token.partition("'")
    if rest.casefold() == "t" and base[-1:].casefold() == "n" and len(base) > 1:
        return (_SHORTENED.get(base[:-1].casefold(), base[:-1]), "not")
    if apostrophe and base and rest:
        return (base,) if rest.casefold() == "s" else (base, rest)
    return (token,)


def _stem(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "xes", "zes", "ches", "shes")) else word[:-1]


SUPERSEDE_ABOVE = 0.7
SIMILAR_ABOVE = 0.4
PAIRS_UP_TO = 24
"""Tokens of a text that is looked for by pairs: at most 36 of them; one filed under pairs has at most 34 tokens."""

_MIN_TOKEN = 3
_PARTS = re.compile(rf"(?=([{UNSPACED}]{{2}}))|([^{UNSPACED}]{{{_MIN_TOKEN},}})")
"""Pairs of characters that follow each other in a script without spaces, and what is between such characters."""


def signature(text: str) -> tuple[str, ...]:
    """Returns the distinct lower-cased tokens longer than two characters, in the order `probe_tokens` relies on; of
    scripts without spaces the pairs of characters.

    A text with none gives one token that no other text can have, a space and its normalized self; so two such texts
    are similar only if equal, and every signature has a probe token.
    """
    return tuple(sorted(tokens_of(text), key=lambda token: (-len(token), _checksum(token), token)))


@remembered
def tokens_of(text: str) -> frozenset[str]:
    """Returns the tokens of a signature in no order."""
    words = text.lower().split()
    tokens = {word for word in words if len(word) >= _MIN_TOKEN}
    if not text.isascii():
        tokens = {pair or run for word in tokens for pair, run in _PARTS.findall(word)}
    return frozenset(tokens) or frozenset({" " + " ".join(words)})


def jaccard(left: Collection[str], right: Collection[str]) -> float:
    """Returns the shared part of two texts' distinct tokens, 0 to 1; 0 when both are empty."""
    shared = len(frozenset(left).intersection(right))
    union = len(left) + len(right) - shared
    return shared / union if union else 0.0


def similarity(left: str, right: str) -> float:
    """Returns the Jaccard similarity of two texts, 0 to 1."""
    return jaccard(tokens_of(left), tokens_of(right))


def probe_tokens(tokens: tuple[str, ...], threshold: float) -> tuple[str, ...]:
    """Returns the leading tokens of a signature, one of which any other with `jaccard > threshold` has in its own.

    Both sides must be cut at the same threshold, or the index side at a lower one: index once at `SIMILAR_ABOVE` and
    probe at either. The count is |x| - ceil(t|x|) + 1, one more than a strict comparison needs when t|x| is whole,
    which absorbs the rounding of t|x|.
    """
    return _leading(tokens, threshold, 1)


class Keys(NamedTuple):
    """Under which keys a signature is filed, and under which others above SUPERSEDE_ABOVE are looked for.

    Keys are 16 hex digits, made of checksums: two pairs may share one (the texts are compared in any case), and they
    say nothing of a text that is forgotten, however long its words were. `sketch` has one of 64 bits for each of the
    `size` tokens, so that most of what only shares a key is distinguished without its text.
    """

    filed: tuple[str, ...]
    probe: tuple[str, ...]
    sketch: int
    size: int

    def matching(self) -> Callable[[int], bool]:
        """Tells of a text's sketch whether that may be above the threshold: False only when it is not.

        Each bit that only one side has is a token that the other lacks; of n tokens n - ceil(tn) may be lacking, and
        the other text has n / t tokens at most.
        """
        own = self.sketch
        lacking = self.size - math.ceil(SUPERSEDE_ABOVE * self.size)
        most = (1 - SUPERSEDE_ABOVE) * self.size / SUPERSEDE_ABOVE + 1  # one for the rounding
        return lambda other: (own & ~other).bit_count() <= lacking and (other & ~own).bit_count() <= most


def keys(tokens: tuple[str, ...]) -> Keys:
    """Returns the keys of a signature: `probe` of one always meets `filed` of another one above the threshold."""
    smallest, biggest = SUPERSEDE_ABOVE * len(tokens), len(tokens) / SUPERSEDE_ABOVE  # of those it may resemble
    pairs: tuple[str, ...] = ()
    if smallest <= PAIRS_UP_TO:
        # one key for each pair of leading tokens; a signature of one token is paired with itself
        leading = _leading(tokens * 2 if len(tokens) == 1 else tokens, SUPERSEDE_ABOVE, 2)
        checksums = [_checksum(token) for token in leading]
        pairs = tuple(f"{first << 32 | second:016x}" for first, second in combinations(checksums, 2))
    singles: tuple[str, ...] = ()
    if biggest > PAIRS_UP_TO:
        singles = tuple(f"{_checksum(token):016x}" for token in probe_tokens(tokens, SUPERSEDE_ABOVE))
    sketch = sum({1 << (_checksum(token) & 63) for token in tokens})
    return Keys(pairs + singles, pairs if len(tokens) <= PAIRS_UP_TO else singles, sketch, len(tokens))


@remembered
def keys_of(text: str) -> Keys:
    """Returns `keys(signature(text))`."""
    return keys(signature(text))


def _leading(tokens: tuple[str, ...], threshold: float, shared: int) -> tuple[str, ...]:
    """The leading tokens of which any other signature above the threshold has `shared` among its own."""
    return tokens[: len(tokens) - math.ceil(threshold * len(tokens)) + shared]


def _checksum(token: str) -> int:
    return zlib.crc32(token.encode("utf-8", "surrogatepass"))


SAME_FROM = 0.97
"""Jaccard similarity of the distinct terms of two documents from which the second may tell nothing new."""
TERMS = 1_000
"""Of a document, from its beginning."""
SMALLEST = 3
"""Of the hashes of a document's terms: of two that are as alike as SAME_FROM at least one is the same, but for one pair
in some ten thousand. So each is compared with few."""


class Distinct(NamedTuple):
    """The place of a document in its pool, and those of worse documents that probably say the same."""

    place: int
    repeats: list[int]


def distinct(documents: TermRows, places: Sequence[int], limit: int) -> list[Distinct]:
    """The first `limit` of `places`, best first, that do not repeat an earlier one, each with what repeats it.

    Places after the last of them are ignored, so `repeats` are what a reader would have seen.
    """
    numbers = native.distinct(
        documents.hashes, documents.lengths, np.asarray(places, np.int64), limit, SAME_FROM, DATE_TERMS, TERMS, SMALLEST
    )
    distinct_results: list[Distinct] = []
    for place, number in zip(places, numbers.tolist(), strict=False):
        if number == len(distinct_results):
            distinct_results.append(Distinct(place, []))
        else:
            distinct_results[number].repeats.append(place)
    return distinct_results
