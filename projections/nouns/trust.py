"""Trust classes: the origin of a document's text, which determines how contexts show it and what can be derived from
it. Pure.

The class follows from the kind and source of the event. A caller can claim a lower class, never a higher one. What has
been derived has the lowest class of its sources.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ingest.events.envelope import Recorded, Trust
from ingest.nouns.memory import MemoryCondensed
from ingest.nouns.session import SessionSummarised
from ingest.patterns import which_occur
from projections.text.turns import Turn

LOWEST_FIRST: tuple[Trust, ...] = ("external", "tool_output", "imported", "agent_concluded", "user_stated")
IMPORTED = "import"
"""The source of imported events."""
_READING = frozenset(("file_read", "search", "command_run"))
"""Kinds of observation whose text is what a tool read, unless it is the text of the call alone."""


BY_RULE, BY_OPERATOR = "rule", "operator"
"""Why a document is in quarantine: its text reads as an instruction, or an operator put it there."""


_RANKS: dict[Trust, int] = {trust: rank for rank, trust in enumerate(LOWEST_FIRST)}
rank = _RANKS.__getitem__
"""The place of a class, 0 for the lowest."""


def lowest(classes: Iterable[Trust]) -> Trust:
    """The lowest of some classes; of none, what an agent concluded."""
    return LOWEST_FIRST[min(map(rank, classes), default=rank("agent_concluded"))]


def is_data(trust: Trust) -> bool:
    """Whether a text is shown as data: neither the user nor an agent stated it."""
    return rank(trust) < rank("agent_concluded")


def is_stated(document: Any) -> bool:
    """Whether lessons, facts and other memories may be derived from a document: the user or an agent stated it."""
    return not is_data(document.trust) and not document.quarantined


def is_condensed(document: Any) -> bool:
    """Whether a memory may be condensed with others, which replaces it and adds nothing: also one of an import."""
    return rank(document.trust) >= rank("imported") and not document.quarantined


def below(least: Trust | None) -> list[tuple[str, str]]:
    """The facets that a search for documents of a class or a higher one leaves out; none for no limit."""
    return [] if least is None else [("trust", lower) for lower in LOWEST_FIRST[: rank(least)]]


def trust_of(recorded: Recorded, said_by: Trust | None = None) -> Trust:
    """The class of what an event says; `said_by` is the class of an observation's text.

    A write that names no agent comes from a person, unless it says what it was derived from.
    """
    envelope, data = recorded.envelope, recorded.data
    made = isinstance(data, (SessionSummarised, MemoryCondensed)) or getattr(data, "derived_from", None)
    by_person = not (made or envelope.agent_id) and envelope.source == "native"
    trust = said_by or ("user_stated" if by_person else "agent_concluded")
    if envelope.source == IMPORTED:
        trust = lowest((trust, "imported"))
    return lowest((trust, envelope.trust)) if envelope.trust else trust


def said_by(turn: Turn, kind: str, role: str, content: str, data: Mapping[str, Any]) -> Trust:
    """The class of an observation's text, by what it was compressed to and what was reported.

    A call of a tool that was written down as text is the agent's in one line; more lines have its output.
    """
    if tool := data.get("tool_name"):
        output = data.get("tool_output")
        if tool == "conversation" or (output and output == data.get("tool_input")):
            return "agent_concluded"  # the agent's own words, reported as a call
        return "external" if kind == "web_fetch" else "tool_output"
    if turn == "harness":  # notifications, reminders and output of commands, in the place of a prompt
        return "tool_output"
    if turn == "user":
        return "user_stated"
    if role == "tool_call" and "\n" not in content and not data:
        return "agent_concluded"
    if kind == "web_fetch":
        return "external"
    is_output = kind in _READING or role in ("tool_call", "tool_result") or data.get("tool_output") is not None
    return "tool_output" if is_output else "agent_concluded"


_MODEL = (
    r"(?:an? |all |any |the )*(?:ai|llm|(?:large )?language model|coding (?:assistant|agent)|chatbot|assistant|claude"
    r"|chatgpt|copilot|codex)s?\b(?: (?:assistant|agent|model)s?\b)?"
)
_SECRETS = (
    r"(?:api[ _-]?keys?|secrets|passwords?|credentials|tokens?|private keys?|ssh keys?|\.env|environment variables"
    r"|chat history|system prompt|conversation)\b"
)
_PLANTED = {
    # to ignore what it was told
    "ignor|disregard|forget|overrid|overrul|bypass|do not follow|don't follow|stop following|do not obey|pay no": (
        r"[\w'’ ]{0,20}?(?:\W{1,5}[\w'’-]+){0,4}?\W{1,5}(?:all|any|your|previous|prior|above|earlier|preceding|former"
        r"|existing|original|system|everything)\b(?:[^\S\n]*[\w'’,-]+){0,4}?\W{1,5}(?:instructions?|prompts?|rules"
        r"|guidelines?|guidance|directives?|directions|constraints|restrictions|safeguards|(?:been|were|are) told)\b"
    ),
    "ignore |disregard |forget ": r"(?:(?:all|everything|of|the|that|what|is|was|came) )*(?:above|before|previously)\b",
    # the same in other languages: the verb, then within a sentence the noun; in some languages the other way around
    "ignorier|vergiss|vergesst|missacht|negeer|vergeet|ignor|oubli|olvid|esquec|esqueç|dimentic|desconsider|descart"
    "|trascur|haz caso omiso|ne tenez|ne tiens|ignoruj|zignoruj|zapomnij|zapome|игнорир|забуд|не обращай|ігнор|忽略"
    "|无视|無視|忘记|忘記|不要遵守|不要理会|تجاهل|انس|bỏ qua|phớt lờ|quên|abaikan|lupakan": (
        r"\w*[^.!?。！？]{0,40}?(?:\b(?:anweisung|vorgabe|instru[ckç]|befehl|regel|aanwijzing|opdracht|istruzion|consigne"
        r"|dire[ct]ti|diretri|r[eè]gle|regla|regra|regole|indica[cz]i|[oó]rden|polece|zasad|pokyn|pravidl|инструкц|указани"
        r"|правил|команд|інструкц|вказівк|hướng dẫn|chỉ dẫn|quy tắc|lệnh|perintah|aturan|petunjuk)"
        r"|指令|指示|规则|規則|提示|命令|指引|تعليمات|الأوامر|القواعد|الإرشادات)"
    ),
    "talimat|kural|yönerge|निर्देश|नियम|आदेश|指示|命令|ルール|プロンプト|規則|指令|지시|명령|규칙|지침|프롬프트": (
        r"\w*[^.!?。！？]{0,40}?(?:\b(?:yok say|görmezden|unut|dikkate alma)|अनदेखा|नज़रअंदाज़|भूल|無視|忘れ|従わな|무시|잊)"
    ),
    # to become something else, or to take the text for orders to it
    "you are now |you are no longer ": (
        rf"(?:an? |the |bound |in )*(?:\w+ ){{0,3}}(?:{_MODEL}|agent|model|bot|admin\w*|mode|rules)\b"
    ),
    "if you are |since you are |attention |attention, |note to |note for |notice to |message to |message for "
    "|instructions to |instructions for |important for ": (
        rf"{_MODEL}(?= ?[,:.!\u2014-]| (?:reading|that|who|processing|you|must|should|please))"
    ),
    "new |updated |hidden |override |<!--": r"\W*(?:system )?(?:instructions?|prompt|override|directives?)\s*:",
    "<|im_start|<|system|[inst]|<<sys>>": "",
    # to hide something from its user, to send secrets somewhere
    "do not |don't |never |without ": (
        r"(?:tell|inform|mention|reveal|alert|notify|ask|warn)\w*\b(?:[^\S\n]*[\w'’,-]+){0,4}?"
        r"\s+(?:the|your) (?:user|human|operator|developer)\b"
    ),
    "send|post|upload|email|e-mail|exfiltrat|leak|transmit": (
        rf"\w*\b[^\n]{{0,80}}?{_SECRETS}[^\n]{{0,80}}?\b(?:to|at)\b[^\n]{{0,20}}?"
        r"(?:https?:|\w@\w|\w\.(?:com|net|io|xyz|example)\b)"
    ),
    "reveal|print |repeat |output |show |disclose": r"(?:\w+ ){0,3}?your (?:\w+ )?(?:prompt|instructions)\b",
}
"""How planted instructions begin, in several languages, and what follows."""
_BEGINNINGS = [
    (sign, re.compile(follows)) for signs, follows in _PLANTED.items() for sign in re.split(r"(?<!<)\|", signs)
]
_beginnings_in = which_occur([sign for sign, _ in _BEGINNINGS])
_INVISIBLE = re.compile("[\u200b-\u200f\u2060\ufeff\u00ad]")
_WITHIN = 300
"""Characters from the beginning of an instruction to its end."""


def hidden_by_rule(trust: Trust, texts: Iterable[str]) -> str:
    """Why a new document is in quarantine: BY_RULE for data that reads as an instruction, else empty."""
    return BY_RULE if is_data(trust) and reads_as_instruction("\n".join(texts)) else ""


def reads_as_instruction(text: str) -> bool:
    """Whether a text gives orders to the model that reads it, as planted instructions do: to ignore what it was told,
    to become something else, to hide something from its user, to send secrets somewhere."""
    lowered = (text if text.isascii() else _INVISIBLE.sub("", text)).lower()
    # as plain text first: one regular expression for all of them takes a hundred times as long
    return any(_follows(lowered, *_BEGINNINGS[number]) for number in _beginnings_in(lowered))


def _follows(lowered: str, sign: str, follows: re.Pattern[str]) -> bool:
    at = lowered.find(sign)
    while at >= 0:
        end = at + len(sign)
        begins = not at or not lowered[at - 1].isalnum() or sign[0].upper() == sign[0]
        denied = lowered[max(0, at - 6) : at].endswith(("not ", "n't ", "never "))
        if begins and not denied and follows.match(lowered, end, end + _WITHIN):
            return True
        at = lowered.find(sign, end)
    return False
