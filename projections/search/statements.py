"""Whether two texts state the same. Pure.

Texts state the same when their words are equal, in the same order, but for case, punctuation, spacing, plurals and the
function words below. A number, name, unit, negation or any other word that only one has makes them two statements.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

CACHED = 1_024
SHORT = 2_000
"""Characters of a text whose words are cached: a fold asks for them several times. At most some 20 MB."""
LONG = 20_000
"""Characters that are looked at word by word: some 10 ms. What is behind them is one word, compared as it is."""


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

    An `exact` word is no plural of another: a name, an identifier. `named` are those, numbers and units.
    """

    text: str
    stem: str
    exact: bool = False
    named: bool = False

    @property
    def fact(self) -> str:
        """What is compared where only facts are: of a name the whole word."""
        return self.text if self.named else self.stem


def states_the_same(one: str, other: str) -> bool:
    """Whether two texts differ in nothing but case, punctuation, spacing, plurals and function words."""
    words, others = words_of(one), words_of(other)
    return len(words) == len(others) and all(map(_is_same, words, others))


def statement_key(text: str) -> str:
    """Returns 16 hex digits that are equal for texts that state the same, and hardly ever for others."""
    stems = "\0".join(word.stem for word in words_of(text))
    return blake2b(stems.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def differ_in_facts(one: str, other: str) -> bool:
    """Whether texts of much the same words differ in a number, name, unit or negation, or in the order of these.

    In a script without spaces every character counts: nothing there says which of them name something.
    """
    both = words_of(one), words_of(other)
    facts = NEGATIONS.union(word.fact for words in both for word in words if word.named)
    first, second = ([word.fact for word in words if word.fact in facts] for words in both)
    return first != second


def words_of(text: str) -> tuple[Word, ...]:
    """The words that a text states something with, in their order; never none."""
    return _cached_words(text) if len(text) <= SHORT else _words(text)


@lru_cache(maxsize=CACHED)
def _cached_words(text: str) -> tuple[Word, ...]:
    return _words(text)


def _words(text: str) -> tuple[Word, ...]:
    text, rest = text[:LONG], text[LONG:]
    text = text if text.isascii() else unicodedata.normalize("NFKC", text).replace("’", "'").replace("−", "-")
    has_case = not text.isupper()  # in a text of capitals they say nothing
    tokens = list(_tokens(text))
    silent = _function_words(tokens)
    words: list[Word] = []
    begins, behind_number = True, False
    for token, ends in tokens:
        folded = token.casefold()
        capital = has_case and token[0].isupper()
        # "A" and "The" at the beginning of a sentence are articles, elsewhere names
        if folded not in silent or (capital and not (begins and (len(token) == 1 or token[1:].islower()))):
            words.append(_word(token, folded, capital, behind_number))
        begins, behind_number = ends, token[-1].isdigit()
    if rest:
        words.append(Word(rest, rest, exact=True, named=True))
    return tuple(words) or (Word(bare := " ".join(text.casefold().split()), bare),)


def _word(token: str, folded: str, capital: bool, behind_number: bool) -> Word:
    if token.isalpha() and not capital and not behind_number:
        return Word(folded, _stem(folded), named=len(token) == 1 and _CHARACTER.match(token) is not None)
    mixed = any(map(str.isdigit, token)) and not token.islower() and not token.isupper()
    name_by_capitals = capital and folded in _CAPITALS and token.isupper()
    if mixed or name_by_capitals or (behind_number and len(token) <= _UNIT_CHARS):
        return Word(token, token, exact=True, named=True)  # a1B and A1b, IT and it, MB and Mb
    if _IDENTIFIER.search(token):
        return Word(folded, folded, exact=True, named=True)
    return Word(folded, _stem(folded), exact=capital or not token.isalpha(), named=capital or behind_number)


def _is_same(one: Word, other: Word) -> bool:
    return one.text == other.text or (one.stem == other.stem and not one.exact and not other.exact)


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Tokens without punctuation, each with whether a sentence ends behind it; a question mark is a token."""
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


def _function_words(tokens: Iterable[tuple[str, bool]]) -> frozenset[str]:
    """Those of the language of which there are most."""
    present = [word for token, _ in tokens if (word := token.casefold()) in _ANY_FUNCTION_WORD]
    return max(FUNCTION_WORDS, key=lambda words: sum(word in words for word in present)) if present else frozenset()


def _stem(word: str) -> str:
    """A word without the ending of a plural."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "xes", "zes", "ches", "shes")) else word[:-1]
