"""Selects the sentences of a session for its summary: each gets a score, then the best that fit are chosen.

Pure and deterministic. A sentence's score is the sum of its features' weights; what a feature is stands here, what it
weighs in `sentence_weights.toml`. Work grows with the number of sentences, at most `SENTENCES` of a session.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from ingest.platform.files import toml_beside
from projections.condensing.chat_facts import CHAT_WEIGHTS, FEELINGS, chat_features, without_address
from projections.nouns.observation import Observation
from projections.text.accounts import account, headline, prose
from projections.text.compression import told_by
from projections.text.sentences import pieces, shortened, stated
from projections.text.terms import terms
from projections.text.turns import without_paste

Part = Literal["user", "assistant", "call", "result"]

WEIGHTS: dict[str, float] = toml_beside(__file__, "sentence_weights.toml")

SENTENCES = 4_000
"""Of a session: the first half and the last half of more."""
RESULT_SENTENCES = 3
"""Of what a tool returned, from its beginning."""
CALL_CHARS = 160
COMMAND_CHARS = 120
REPEATED = 0.8
"""Share of a sentence's terms in the chosen ones, from which it says nothing new."""
LEAST = 0.22
"""Worth below which a sentence is left out once half of the room is used: it would only fill the rest."""
FACT = 0.5
"""Worth from which a sentence of a chat states a fact."""
TALK = 0.25
"""Worth, as in a chat, below which an assistant's sentence is small talk."""
SHORT = 40
"""Characters below which a sentence says little."""
COST = 90
"""Characters that a sentence costs beyond its own, so that many short ones are not better than one that says it."""

_THOUGHT = re.compile(
    r"\A(?:thought|reasoning)\s*:\s*(.*?)(?:\s*\|\s*(?:command|action|tool)\s*:\s*(.*))?\Z", re.DOTALL | re.IGNORECASE
)
_THINKING = re.compile(r"\A(?:call\s+)?think\w*\(\s*(?:thought\s*=\s*)?([\"'])(.*)\1\s*\)\Z", re.DOTALL)
_POLITE = re.compile(
    r"\A(?:(?:unfortunately|however|therefore|additionally|also|great|sure|okay|ok|yes|no|alright|perfect|now|so|well"
    r"|thanks?(?: you)?|actually|certainly|absolutely|of course|got it|i see|hi(?: there)?|hello|hey)\b[,!.:]+\s*"
    r"|(?:i['\u2019]?m (?:really |so )?sorry|i understand|i apologi[sz]e|i appreciate)\b[^.,;]*,\s*(?:but|and)\s+)+",
    re.IGNORECASE,
)
_ERROR = re.compile(r"\s*(?:error|traceback)\b", re.IGNORECASE)

CUES: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern.replace("\n", ""), re.IGNORECASE)
    for name, pattern in toml_beside(__file__, "cues.toml").items()
}
_WITH_PART = frozenset(
    {("user", "wanted"), ("user", "done"), ("assistant", "done"), ("assistant", "refused"), ("assistant", "reason"),
     ("assistant", "offered"), ("thought", "done")}
)  # fmt: skip
"""Cues that mean something else when somebody in particular says them."""
_CHANGING = re.compile(
    r"\b(?:book|cancel|update|modify|create|delete|send|add|remove|set|write|edit|submit|apply|transfer|merge|deploy"
    r"|install|commit|push|change|upgrade|refund|insert)\w*",
    re.IGNORECASE,
)
"""Verbs of calls that change something."""


class Sentence(NamedTuple):
    """A sentence, the place of its observation in the session, who said it, its terms, and what is known of it."""

    text: str
    place: int
    part: Part
    terms: frozenset[str]
    features: Mapping[str, float]

    @property
    def worth(self) -> float:
        """0..1, how likely it says something that matters."""
        weights = CHAT_WEIGHTS if "chat" in self.features else WEIGHTS
        score = sum(weights.get(name, 0.0) * value for name, value in self.features.items())
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))


class _Statement(NamedTuple):
    part: Part
    text: str
    place: int
    is_thought: bool
    number: int
    """Among the sentences of its observation."""
    of: int
    is_report: bool
    """Whether it is a tool's call as a hook reports it, made into a line."""


def sentences_of(observations: Sequence[Observation], is_chat: bool = False) -> list[Sentence]:
    """Returns the sentences of a session, whose observations are in time order; of a chat, those that state a fact."""
    items = [
        _Statement(part, text, index, thought, number, len(texts), part == "call" and _is_report(observation))
        for index, observation in enumerate(observations)
        for part, thought, texts in _parts(observation)
        for number, text in enumerate(texts)
    ]
    if len(items) > SENTENCES:
        items = items[: SENTENCES // 2] + items[-SENTENCES // 2 :]
    if is_chat:
        speakers = frozenset(terms(" ".join(item.agent_id for item in observations)))
        texts = [(item, text) for item in items for text in pieces(without_address(item.text)) if text]
        sentences = [_of_piece(text, item, speakers) for item, text in texts]
        return [sentence for sentence in sentences if sentence.worth >= FACT] or sentences
    words = [terms(item.text) for item in items]
    of_place: dict[int, set[str]] = {}
    for item, item_words in zip(items, words, strict=True):
        of_place.setdefault(item.place, set()).update(item_words)
    spread = Counter(term for place_words in of_place.values() for term in place_words)
    ends = _Ends.of(items)
    first_results = [item for item in items if item.part == "result" and item.number == 0]
    errors = {item.place for item in first_results if _ERROR.match(item.text)}
    is_spoken = not any(item.part in ("call", "result") for item in items)
    return [
        Sentence(
            _tight(item), item.place, item.part, frozenset(item_words),
            _features(item, item_words, ends, len(observations), sum(map(spread.__getitem__, item_words)), errors),
        )
        for item, item_words in zip(items, words, strict=True)
        if not (is_spoken and item.part == "assistant" and _is_talk(item))
    ]  # fmt: skip


def _is_talk(item: _Statement) -> bool:
    """Whether an assistant only thanks, praises or encourages."""
    sentence = _of_piece(without_address(item.text), item)
    return sentence.worth < TALK and sentence.features["feeling"] + sentence.features["reaction"] > 0


def _of_piece(text: str, item: _Statement, speakers: frozenset[str] = frozenset()) -> Sentence:
    """A sentence with the features that it has in a chat."""
    words = frozenset(terms(text))
    features = chat_features(text, words, speakers)
    return Sentence(text, item.place, item.part, words - FEELINGS - speakers, features)


def _is_report(observation: Observation) -> bool:
    return bool(observation.call_headline) or "tool_name" in observation.data


def _tight(item: _Statement) -> str:
    """The text of a statement without an address, a thanks or an apology before it."""
    polite = _POLITE.match(item.text) if item.part in ("user", "assistant") else None
    rest = item.text[polite.end() :] if polite else ""
    return rest[:1].upper() + rest[1:] if len(rest) >= SHORT // 2 else item.text


def chosen(sentences: Sequence[Sentence], room: int) -> list[Sentence]:
    """The sentences to tell, in time order, of at most `room` characters; terms of chosen ones count less."""
    worths = {number: sentence.worth for number, sentence in enumerate(sentences)}
    covered: set[str] = set()
    selected: list[int] = []
    half = room / 2
    while worths:
        best, best_value = -1, 0.0
        for number, worth in list(worths.items()):
            sentence = sentences[number]
            repeated = len(sentence.terms & covered) / len(sentence.terms) if sentence.terms else 0.0
            if len(sentence.text) + 1 > room or repeated > REPEATED or (room < half and worth < LEAST):
                del worths[number]  # for good: room only shrinks, and the covered terms only grow
                continue
            value = worth * (1 - repeated) / (len(sentence.text) + 1 + COST)
            if value > best_value:
                best, best_value = number, value
        if best < 0:
            break
        del worths[best]
        selected.append(best)
        covered |= sentences[best].terms
        room -= len(sentences[best].text) + 1
    return [sentences[number] for number in sorted(selected)]


def _parts(observation: Observation) -> Iterator[tuple[Part, bool, list[str]]]:
    """Who said what in an observation: part, whether it is a thought, sentences."""
    words = prose(observation)
    if observation.agent_id:
        words = words.removeprefix(f"{observation.agent_id}:").lstrip()
    if observation.turn == "user":
        command, _, rest = words.partition("\n") if words.startswith("/") else ("", "", words)
        yield "user", False, [*filter(None, [command]), *stated(without_paste(rest))]
    elif observation.turn in ("harness", "subagent", "compaction"):
        return  # a host's and a subagent's notes are not what the session came to
    elif observation.role == "tool_result":  # how it went; the rest of an output is what was looked at
        output = stated(words or account(observation))[:RESULT_SENTENCES]
        yield "result", False, [text for text in output if CUES["done"].search(text) or CUES["failed"].search(text)]
    elif observation.data.get("tool_name") == "conversation" and not observation.model:
        yield "user", False, stated(told_by(observation.data.get("tool_input")))
        yield "assistant", False, stated(told_by(observation.data.get("tool_output")))
    elif observation.call_headline and not observation.model:
        yield "call", False, [observation.call_headline]
    elif observation.data.get("tool_name") and not words:
        yield "call", False, [headline(observation)]
    elif observation.role == "tool_call" and not observation.data.get("tool_name"):
        yield from _call(words)
    else:
        yield "assistant", False, stated(words or account(observation))


def _call(text: str) -> Iterator[tuple[Part, bool, list[str]]]:
    """A call that was written down as text: what was thought, and what was done."""
    if (thinking := _THINKING.match(text)) is not None:
        yield "assistant", True, stated(thinking[2])
    elif (thought := _THOUGHT.match(text)) is not None:
        yield "assistant", True, stated(thought[1])
        if thought[2]:
            yield "call", False, [shortened(thought[2], COMMAND_CHARS)]
    else:
        yield "call", False, [shortened(text.removeprefix("call "), CALL_CHARS)]


class _Ends(NamedTuple):
    """Places of observations by who said them, each with how many of its kind come before and after it."""

    user: Mapping[int, int]
    acts: Mapping[int, int]
    """The assistant's, from the end: 0 is the last."""
    messages: Mapping[int, int]
    summed_up: int
    """Index of the last substantive assistant turn, or -1."""
    has_reports: bool
    """Whether hooks report calls: then the agent's own words are those that end its turns, and sum them up."""

    @classmethod
    def of(cls, items: Sequence[_Statement]) -> "_Ends":
        user = dict.fromkeys(item.place for item in items if item.part == "user")
        backward = items[::-1]
        acts = dict.fromkeys(item.place for item in backward if item.part in ("assistant", "call"))
        messages = dict.fromkeys(item.place for item in backward if item.part == "assistant" and not item.is_thought)
        of_user, of_acts, of_messages = (
            {index: rank for rank, index in enumerate(places)} for places in (user, acts, messages)
        )
        telling = [item.place for item in items if item.place in messages and len(item.text) >= SHORT]
        reports = any(item.is_report for item in items)
        return cls(of_user, of_acts, of_messages, max(telling, default=-1), reports)


def _features(
    item: _Statement, words: Sequence[str], ends: _Ends, observations: int, spread: int, errors: set[int]
) -> dict[str, float]:
    kind = "thought" if item.is_thought else item.part
    cues = [name for name, pattern in CUES.items() if pattern.search(item.text)]
    features: dict[str, float] = {
        "constant": 1.0,
        kind: 1.0,
        "late": item.place / max(1, observations - 1),
        "length": min(len(item.text), 260) / 100,
        "terms": min(len(set(words)), 25) / 10,
        "central": spread / max(6, len(words)) / observations,
        **dict.fromkeys(cues, 1.0),
        **{f"{kind} {cue}": 1.0 for cue in cues if (kind, cue) in _WITH_PART},
        "question": float(item.text.endswith(("?", "？"))),
        "short": float(len(item.text) < SHORT),
        "data": float(item.text.count("|") > 2 or "{" in item.text),
    }
    if item.part == "user":
        rank = ends.user[item.place]
        features["opening"] = float(rank == 0 and item.number < 2)
        features["behind the opening"] = float(rank == 0 and item.number in (2, 3))
    elif item.part == "assistant":
        features["near the end"] = math.exp(-ends.acts[item.place] / 2)
        features["first of its text"] = float(item.number == 0)
        features["last of its text"] = float(item.number == item.of - 1)
        features["closing"] = float(ends.has_reports and item.place == ends.summed_up)
        if not item.is_thought:
            features["near the last message"] = math.exp(-ends.messages[item.place] / 1.5)
    elif item.part == "call":
        features["call near the end"] = math.exp(-ends.acts[item.place] / 2)
        changes = _CHANGING.search(item.text[:40]) is not None
        features["changes something"] = float(changes)
        features["failed at once"] = float(item.place + 1 in errors)
        features["summed up later"] = float(item.is_report and item.place < ends.summed_up)
        features["changed something"] = float(changes and item.place + 1 not in errors)
    return features
