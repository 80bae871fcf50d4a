"""What may be derived from, and what of a derived text its remaining sources still say.

Guarantee: pure. A statement that is code, output, a path, a tool call or a label is no sentence; one about the moment,
about who speaks or about what was named before it is no claim. Where that cannot be told, the answer is no. Of a
derived text nothing is kept that no remaining source says in the same words; spacing, case and the mark at the end of
a sentence aside.
"""

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from msgspec import Struct

from projections.text.accounts import is_call
from projections.text.changes import announces
from projections.text.sentences import alike_groups, pieces, says, statements, term_set
from projections.text.similarity import NEGATIONS
from projections.text.story import decides, replaces
from projections.text.terms import terms
from projections.text.wishes import refused, relation
from projections.text.words import CODE_SPAN, words

SAME_CLAIM = 0.6
"""Jaccard similarity of terms from which two texts claim the same: with less, "the cache is cleared by a deploy" and
"the cache is filled by a deploy" would."""
SAID_ALREADY = 0.95
"""Share of a text's terms that another says, from which it need not be made: with less, what an admin may create would
be left out for what an admin may delete."""
_NEARLY_THE_SAME = 0.4
"""Share of all terms of two statements from which the later one can announce another value of the earlier one."""
_FEWEST_WORDS = 3
_WORDY = 0.6
"""Share of the tokens beside code spans that are plain words, in prose."""
_WORD = re.compile(r"[^\W\d_][^\W_]*(?:['’-][^\W_]+)*")
_EDGES = "\"'“”‘’«»()[]*_.,;:!?…"
_NO_PROSE = re.compile(
    r"(?:\d+\s*[:|]|[|{}\[\]<>$@\\/=+]|-{2,}|>>>|\#|\"[^\"]*\"\W*\Z|'[^']*'\W*\Z|(?:import|from|def|class|return|raise)\s+\S+\W*\Z"
    r"|(?:call\s+)?[\w.]+\("
    r"|(?:command|action|output|input|stdout|stderr|observation)\s*:)",
    re.IGNORECASE,
)
"""How lines of code, listings, logs, markup and quoted literals begin."""
_HEADING = re.compile(r"\A\W*[^\W\d_]\w*(?: \w+){0,3}\s?:\**\s")
"""A name in front of what is said: a field's with its value, a speaker's, an exception's."""
_LABEL = re.compile(r"\w[:=](?:\s|\Z)")
"""More than one of them are names with their values."""
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_FEWEST_UNSPACED = 6
_VERBS = words(
    "is are was were be been am has have had do does did done can could may might must shall should will would cannot "
    "isn't aren't wasn't weren't hasn't haven't hadn't don't doesn't didn't can't couldn't mustn't shouldn't won't "
    "goes wouldn't needn't it's that's there's we're they're you're i'm i've we've they've i'll we'll they'll let's "
    "won got gave took went came made said told found ran broke built bought kept knew left lost meant met paid put "
    "read saw sent set shut stood thought threw understood wrote began chose drew fell grew held hid hit "
    "hurt led"
)
VERB_STEMS = frozenset(
    stem
    for verb in words(
        "accept add allow answer apply ask avoid become begin belong block break bring build call cancel cause change "
        "check choose clean close come commit compare connect contain cost crash create cut delete depend deploy die "
        "disable drop enable end ensure exit expect expire explain fail fall find finish fix follow forget freeze get "
        "give go grow handle happen help hold ignore include install keep know last launch lead learn leave let listen "
        "live load lock log lose make matter mean merge migrate miss move name need open overwrite own pass pay pick "
        "prefer prevent print protect provide publish pull push put raise reach read rebuild receive reconnect reduce "
        "refuse reject release reload remain remember remove rename repeat replace reply report reproduce require "
        "reset resolve respond restart restore retry return revert review roll rotate run save say see seem send serve "
        "set share ship show skip solve sort speak spend split start stay stop store succeed support take talk tell "
        "test throw time trim trust try turn type understand update upgrade use validate verify wait walk want warn "
        "watch work write"
    )
    for stem in terms(verb)
)
_ELSEWHERE = words(
    "der das den dem ein eine ist sind und nicht wird werden muss soll le les une sont pas avec doit el los las "
    "una esta están está debe il che sono non deve het een zijn niet moet uma são não deve och är inte jest nie"
)
"""Words that occur only in prose of other languages, whose verbs are not looked for."""
_NUMBERS = words(
    "zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty hundred "
    "thousand million first second third monday tuesday wednesday thursday friday saturday sunday"
)
_NO_NAMES = words("i i'm i'll i've i'd the a an it this that these those we you")
_OF_THE_SPEAKER = re.compile(r"\b(?:I|I['’](?:m|ll|d|ve)|[Mm]y|[Mm]e|[Mm]ine|[Mm]yself)\b")
_PLAN = re.compile(
    r"\A(?:thought:\s*)?(?:(?:in order )?to [^,]{1,80},\s)?"
    r"(?:(?:now|next|then|first|finally|okay|ok|great|alright|so)\b[,:]?\s)?"
    r"(?:(?:after|before|once|since|now that) [^,]{1,160},\s)?"
    r"(?:let['’]s|let me|i['’]ll|i will|i am going to|i['’]m going to|i need to|i should|the next step"
    r"|we (?:can|should) now|we(?: will|['’]ll)(?: now| continue)|it(?:['’]s| is) (?:important|time|worth|necessary))"
    r"\b",
    re.IGNORECASE,
)
_OF_THE_MOMENT = re.compile(
    r"\b(?:currently|right now|at the moment|now that|so far|for now|indicat(?:es?|ing)|seems?"
    r"|in th(?:is|at) (?:case|context|regard|respect|way))\b",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"(?i)\b(?:was|were|took|had|ran|got|went|came|fell|rose|wrote|sent|lost|made|pass(?:es)?|today|tonight|yesterday"
    r"|last \w+|this \w+)\b|(?<!is )(?<!are )(?<!be )(?<!now )\b\w*[^\We]ed\b"
)
"""Beside a number, says that it was counted or measured once; "is limited to 20" says what holds."""
NUMBER = re.compile(r"(?<![\w.-])\d(?:[\d.,]*\d)?")
_LEANING = re.compile(
    r"(?:\w+,?\s)?(?:it|this|these|those|they|he|she|here)\b|that\b|(?:\S+\s){1,2}(?:it|them)\b",
    re.IGNORECASE,
)
"""Begins a sentence whose subject is in the sentence before it."""
_SPEAKER = re.compile(r"\A(?:thought|reasoning|user|assistant|agent)\s*:\s+", re.IGNORECASE)


def is_sentence(text: str) -> bool:
    """Returns whether a text is a sentence with a verb, and neither code nor output, nor a call that names its target.

    Verbs are English; of other languages whatever reads like prose is taken.
    """
    if is_call(text) or _NO_PROSE.match(text.strip()):
        return False
    if len(_UNSPACED.findall(text)) >= _FEWEST_UNSPACED:
        return True
    plain = _HEADING.sub("", CODE_SPAN.sub(" ", text))
    if plain.rstrip().endswith(":") or len(_LABEL.findall(plain)) > 1:
        return False
    tokens = [bare for token in plain.split() if (bare := token.strip(_EDGES))]
    plain_words = [token for token in tokens if _WORD.fullmatch(token)]
    if len(plain_words) < _FEWEST_WORDS or len(plain_words) < _WORDY * len(tokens):
        return False
    if any(_is_verb(_lowered(word)) for word in plain_words) or not plain.isascii():
        return True
    return not _ELSEWHERE.isdisjoint(plain_words)  # as they are written: DEN is an airport, and Las Vegas is no Spanish


def is_claim(text: str) -> bool:
    """Returns whether a text is a sentence that holds outside of its moment: no next step, not about its speaker."""
    return is_sentence(text) and not _PLAN.match(text) and not _OF_THE_SPEAKER.search(text)


def stands_alone(text: str) -> bool:
    """Returns whether a claim says itself what it is about, and holds beyond the moment."""
    return not _LEANING.match(_HEADING.sub("", text)) and not _OF_THE_MOMENT.search(text) and not text.endswith("…")


def is_figure(text: str) -> bool:
    """Returns whether a claim states a number of one run: what was counted or measured, and no decision."""
    plain = CODE_SPAN.sub(" ", text)
    return bool(NUMBER.search(plain) and _PAST.search(plain)) and not decides(text)


def claims_in(text: str) -> list[str]:
    """Returns what a text claims in sentences that can be read without the others, whole; without who says it."""
    texts = (_SPEAKER.sub("", statement) for statement in statements(text))
    return [claim for claim in texts if is_claim(claim) and stands_alone(claim)]


class Claim(NamedTuple):
    """What a text claims: its index terms, its words, those of them that name a number or a thing, its denials."""

    terms: frozenset[str]
    words: frozenset[str]
    named: frozenset[str]
    denials: int

    @classmethod
    @lru_cache(maxsize=8_192)
    def of(cls, text: str) -> "Claim":
        """The claim of a text."""
        tokens = [bare for token in text.replace("`", " ").split() if (bare := token.strip(_EDGES))]
        lowered = [_lowered(token) for token in tokens]
        named = {word for token, word in zip(tokens, lowered, strict=True) if _names(token)}
        denials = sum(map(_denies, lowered))
        return cls(term_set(text), frozenset(lowered), frozenset(named), denials)

    def conflicts(self, other: "Claim") -> bool:
        """Whether one denies what the other says, or each names a number or thing that the other does not."""
        if self.denials != other.denials:
            return True
        return bool(self.named - other.words) and bool(other.named - self.words)

    def is_said_by(self, other: "Claim", threshold: float) -> bool:
        """Whether both claim the same: alike in terms by their Jaccard similarity, and in no conflict."""
        shared, all_terms = len(self.terms & other.terms), len(self.terms | other.terms)
        return bool(shared) and shared >= threshold * all_terms and not self.conflicts(other)

    def is_within(self, other: "Claim") -> bool:
        """Whether another text, which may say more, says all that this one claims."""
        shared = len(self.terms & other.terms)
        shares_terms = bool(shared) and shared >= SAID_ALREADY * len(self.terms)
        return shares_terms and self.named <= other.words and self.denials <= other.denials

    def repeats(self, other: "Claim") -> bool:
        """Returns whether another text says all that this one claims, or all but a clause, in any order."""
        is_longer = len(other.terms) >= _FEWEST_WORDS and other.is_within(self) and self.denials == other.denials
        return is_longer or self.is_within(other)


def claim_groups(texts: Sequence[str], threshold: float) -> list[list[int]]:
    """Returns the indices of texts that claim the same, in groups as `alike_groups` has them."""
    claims = [Claim.of(text) for text in texts]
    groups: list[list[int]] = []
    for group in alike_groups([claim.terms for claim in claims], threshold):
        waiting = group
        while waiting:
            same = [index for index in waiting if not claims[waiting[0]].conflicts(claims[index])]
            groups.append(same)
            waiting = sorted({*waiting} - {*same})
    return sorted(groups)


def replaced(statements: Iterable[str]) -> set[str]:
    """Returns the statements, in time order, that a later one replaces.

    A decision goes if a later statement names something else on its subject, or refuses what it names. Any other
    statement goes if one that is nearly the same announces another value.
    """
    standing, gone = dict[str, bool](), set[str]()
    for text in statements:
        is_decision = decides(text)
        if is_decision or announces(text):
            gone |= {old for old, decided in standing.items() if old != text and _replaces(text, old, decided)}
        gone.discard(text)
        standing[text] = is_decision
    return gone


CLAIMS_OF_A_TEXT, CLAIMS_ALIKE = 20, 50


def contradictions(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Returns the indices of each two texts that contradict each other, in ascending order.

    They do if they state the same but for one number or name: "the API listens on 8080", "the API listens on 9090"; or
    but for a denial. Numbers that were measured once do not count, nor do claims in other words. Only the first
    CLAIMS_OF_A_TEXT are compared, and of those that begin alike the last CLAIMS_ALIKE: work grows with the texts.
    """
    stated: dict[tuple[str, ...], deque[tuple[int, list[str]]]] = {}
    for number, text in enumerate(texts):
        for claim in claims_in(text)[:CLAIMS_OF_A_TEXT]:
            if not is_figure(claim):
                tokens = [token.strip(_EDGES) for token in claim.split()]
                subject = [_lowered(token) for token in tokens if not _denies(token)]
                alike = stated.setdefault((*subject[:2],), deque(maxlen=CLAIMS_ALIKE))
                alike.append((number, tokens))
    pairs: set[tuple[int, int]] = set()
    for claims in stated.values():
        for (earlier, old), (later, new) in combinations(claims, 2):
            if earlier != later and _differ(old, new):
                pairs.add((earlier, later))
    return sorted(pairs)


def _differ(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether two claims contradict each other: their words are the same but for one, or but for a denial."""
    before, after = list(map(_lowered, old)), list(map(_lowered, new))
    if any(map(_denies, before)) != any(map(_denies, after)):
        return [word for word in before if not _denies(word)] == [word for word in after if not _denies(word)]
    at = next((n for n, words in enumerate(zip(before, after, strict=False)) if len({*words}) > 1), 0)
    rests = {*before[at + 1 :]}, {*after[at + 1 :]}
    if not (rests[0] <= rests[1] or rests[1] <= rests[0]):
        return False
    # what differs before the verb is the subject
    return _names(old[at]) and _names(new[at]) and (at > len(old) // 2 or any(map(_is_verb, before[:at])))


def _denies(word: str) -> bool:
    return word.lower() in NEGATIONS or word.endswith("n't")


def _replaces(new: str, old: str, decided: bool) -> bool:
    """Returns whether a later statement replaces an earlier one; `decided` says that the earlier one decided."""
    later, earlier = Claim.of(new), Claim.of(old)
    if decided:
        is_opposed = refused(new) & term_set(" ".join(earlier.named))
        if is_opposed or relation(_HEADING.sub("", new), _HEADING.sub("", old)) == "replaces":
            return True
        is_new = not term_set(" ".join(later.named)) <= earlier.terms
        return is_new and announces(new) and replaces(new, old)
    shared = len(later.terms & earlier.terms)
    return (
        shared >= _NEARLY_THE_SAME * len(later.terms | earlier.terms)
        and replaces(new, old)
        and later.conflicts(earlier)
    )


def _names(token: str) -> bool:
    """Whether a token is a number, an identifier, or begins with a capital, as a name does."""
    if any(character.isdigit() or character in "_/=" for character in token) or token.lower() in _NUMBERS:
        return True
    return token[:1].isupper() and _lowered(token) not in _NO_NAMES


def _lowered(token: str) -> str:
    return token if token in ("May", "AM") else token.lower().replace("’", "'")


def _is_verb(word: str) -> bool:
    if word.endswith("ing"):  # without a verb beside it, it is a noun or belongs to one
        return False
    return word in _VERBS or (len(word) > 4 and word.endswith("ed")) or not VERB_STEMS.isdisjoint(terms(word))


_MARKER = re.compile(r"\A(?:[-*+•]|\d{1,3}[.)])\s+")


class Remainder(Struct, frozen=True):
    """What is left of a text, and the sources that say it."""

    content: str
    sources: list[str]


def sayers(phrase: str, texts: Mapping[str, str]) -> list[str]:
    """Returns the sources whose text has these words."""
    return [source for source, text in texts.items() if says(text, phrase)]


def confirmed(content: str, texts: Mapping[str, str]) -> Remainder | None:
    """Returns the content with the sources that say some of it; None unless all of it is said by some of them."""
    sources: dict[str, None] = {}
    for piece in _pieces(content.splitlines()):
        sources_of_piece = sayers(piece, texts)
        if not sources_of_piece:
            return None
        sources.update(dict.fromkeys(sources_of_piece))
    return Remainder(content, list(sources)) if sources else None


def cut(content: str, texts: Mapping[str, str], *, heading: bool) -> Remainder | None:
    """Returns the content without what no source says, with the sources of the rest; None if nothing is left.

    The first line of a text with a `heading` stays, if a source says what it names behind its first word.
    """
    first, *lines = content.splitlines() or [""]
    head = [first] if heading and sayers(first.partition(" ")[2], texts) else []
    sources: dict[str, None] = {}
    remaining: list[str] = []
    for line in lines if heading else [first, *lines]:
        marker = match[0] if (match := _MARKER.match(line)) else ""
        stated: list[str] = []
        for piece in _pieces([line]):
            if sources_of_piece := sayers(piece, texts):
                stated.append(piece)
                sources.update(dict.fromkeys(sources_of_piece))
        if stated:
            remaining.append(marker + " ".join(stated))
    if not remaining or (heading and not head):
        return None
    return Remainder("\n".join(head + remaining), list(sources))


def reworded(content: str, texts: Mapping[str, str], threshold: float) -> Remainder | None:
    """Returns what the first source that states nearly the same says instead, with those that say that."""
    claim = Claim.of(content)
    for text in texts.values():
        for stated in statements(text):
            if claim.is_said_by(Claim.of(stated), threshold):
                return Remainder(stated, sayers(stated, texts))
    return None


def _pieces(lines: Iterable[str]) -> Sequence[str]:
    return [piece for line in lines for piece in pieces(_MARKER.sub("", line)) if piece]
