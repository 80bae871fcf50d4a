"""Values that are given to a name that says secret: in code, settings, JSON and shell.

Two kinds of names: those that say password or secret, whose value a person may have chosen, and those that say token or
key, whose value a machine made. What is no literal (a variable, a call, a path, a placeholder) stays.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from ingest.patterns import SecretPattern
from ingest.secrets import foreign, plausible

_ABROAD = (
    r"contrase[nñ?]as?|clave|mot[ _-]de[ _-]passe|senha|palavra-passe|parola(?: d'ordine)?|has[lł?]o|[sş?]ifre\w{0,4}"
    r"|wachtwoord|l[oö?]senord|adgangskode|passord|salasana|jelsz[oó?]|heslo|" + foreign.WORDS
)
"""The word for password in other languages; `?` is a letter that RE2 is not shown."""
_PASSWORD = (
    r"passwords?|passwd|passwort|passphrase|passcode|pwd|[_.\-]pass|\bpass|[_.\-]pw|\bpw|secrets?"
    r"|secret[_.\- ]?(?:access[_.\-]?)?key(?:[_.\-]?base)?|requirepass|masterauth|storepass|keypass|kennwort|pepper|"
    + _ABROAD
)
_TOKEN = (
    r"token|api[_.\- ]?key|(?:access|account|private|signing|encryption|master|license|shared|shared[_.\-]?access|auth"
    r"|session|hmac|jwt|deploy|storage|admin|service|app|consumer|webhook|write|read|ingest|instrumentation|data"
    r"|subscription|user|stream|integration|routing)[_.\- ]?key|sharedaccess(?:key|signature)"
    r"|[_\-]key|credentials?|creds?|auth|[_.\-]sid|session[_.\-]?id|sessid|cookie|jwt|bearer|dsn|webhook|signature|seed|salt"
    r"|pat|otp|dockerconfigjson"
)
_ROW_KEY = re.compile(
    r"(?i)(?:idempotency|partition|primary|foreign|cache|sort|dedup\w{0,12}|row|object|group|lookup|unique|composite|range|hash"
    r"|map)[_.\- ]?key\W*\Z"
)
_SESSION = re.compile(r"(?i)session[_.\- ]?id\W*\Z")
_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What names a row, a request or a session of an agent opens nothing. The session of a web server is no UUID."""
_SUFFIX = (
    r"(?:[_.\-]?(?:value|b64|base64|raw|plain|plaintext|text|string|prod|production|dev|staging|test|live|primary"
    r"|secondary|old|new|default|env|\d{1,2}))?"
)
_QUOTE = r"""\\*["'`]"""
_SEPARATOR = (
    rf"""(?:{_QUOTE})?[\])]?[\s\\]*(?:=>|:=|\?=|==|!=|:|=|->)[\s\\]*(?:[A-Za-z_][\w.\[\]|]{{0,40}}\s*=\s*)?"""
    rf"""(?:[>|][\-+]?\s*\n\s*)?|{_QUOTE}\s*,\s*"""
)
_BARE = r"[A-Za-z0-9_\-/.+]{20}|[A-Za-z_\-./+]{0,64}[0-9!@#^%&*~?=$]|[A-Za-z]{5,32}\s*(?:\n|$)"
TRIGGER = (
    rf"(?i)(?:(?P<password>{_PASSWORD})|{_TOKEN}){_SUFFIX}(?:{_SEPARATOR})"
    rf"(?:[brf@]{{0,2}}(?P<quote>{_QUOTE})[^\"'`\r\n]{{4}}|(?P<bare>{_BARE}))"
)
_PATTERN = SecretPattern(TRIGGER)
_SAYS_PASSWORD, _OPENS, _IS_BARE = 1, 2, 3
"""Groups: the name says password; the opening quote; where a value without quotes begins."""

_LONGEST_NAME = 128
_NAME = re.compile(rf"(?i)(?:(?P<password>{_PASSWORD})|{_TOKEN}){_SUFFIX}\Z")

_RUN = re.compile(r"""(?:[^\s"'`<>\\]++|\\\r?\n[ \t]*+|\\(?![nrt"'`]))++""")
_CONTINUED = re.compile(r"\\\r?\n[ \t]*+")
_WRAPPED = re.compile(r"(?:(?:\\?\r?\n|\\n)[ \t]*+[A-Za-z0-9+/]{16,}+={0,2}(?=[\s\"'\\]|$))++")
_NEXT = re.compile(r"""(?=[&;,\\%])(?:[&;,](?=\s*[A-Za-z_][\w .\-]{0,40}=|\s|$)|\\u00|%26|&amp;)""")
_WHOLE = re.compile(
    r"""(?i)(?:api_key|api-key|apikey|secret|token|password|credential|auth)\s*+[=:]\s*+(?:\\*+["'])?+\Z"""
)
"""What agentmemory removes together with its name, where the value has 20 characters of a key."""
_KEY_RUN = re.compile(r"[A-Za-z0-9_\-/.+]{20}")
_JUDGED = 80
"""How much of a value is looked at: enough to tell, and not so much that many long ones cost more than their length."""
_LONGEST_LITERAL = 1024
_LONGEST_PREFIX = 16
_TRAILING = ".,;:)]}"


def find(raw: bytes, text: str) -> Iterator[tuple[int, int]]:
    """The places of values that are secrets."""
    consumed = words_until = 0
    for place in _PATTERN.spans(raw):
        if place[0] < consumed or place[1] <= words_until:
            continue
        found = _PATTERN.groups(raw, *place)
        password = found.start(_SAYS_PASSWORD) >= 0
        quote = text[slice(*found.span(_OPENS))] if found.start(_OPENS) >= 0 else ""
        start = found.end(_OPENS) if quote else found.start(_IS_BARE)
        end = _end(text, start, quote)
        judged = _CONTINUED.sub("", text[start : min(end, start + _JUDGED)])
        name = text[max(0, place[0] - _LONGEST_PREFIX) : start]
        if not is_secret(judged, name, password=password, quoted=bool(quote)):
            if len(judged) == _JUDGED and not quote and plausible.is_words(judged):
                words_until = start + _JUDGED // 2
            continue
        if end - start >= _JUDGED and (rest := _RUN.match(text, end)):
            end = rest.end()
        if wrapped := _WRAPPED.match(text, end) if end - start >= 40 else None:
            end = wrapped.end()
        consumed = end
        whole = _WHOLE.search(text, found.start(), start)
        if whole and _KEY_RUN.match(text, start):
            if quote and text.startswith(quote, end):
                end += len(quote)
            start = whole.start()
        yield start, end


def _end(text: str, start: int, quote: str) -> int:
    """Where a value ends: at its closing quote, else where its run of characters does."""
    if quote:
        limit = min(len(text), start + _LONGEST_LITERAL)
        end = text.find(quote, start, limit)
        while end > start and not quote.startswith("\\") and text[end - 1] == "\\":
            end = text.find(quote, end + 1, limit)
        if end >= 0 and "\n" not in text[start:end]:
            return end
    run = _RUN.match(text, start, start + _JUDGED)
    end = run.end() if run else start
    if not quote:
        cut = _NEXT.search(text, start + 1, min(end, start + _JUDGED))
        end = cut.start() if cut else end
        while end > start and text[end - 1] in _TRAILING:
            end -= 1
    return end


@lru_cache(4096)
def kind_of(name: str) -> bool | None:
    """Whether a name says password (True) or token (False); None for any other."""
    found = _NAME.search(name[-_LONGEST_NAME:])
    return None if found is None else found.start("password") >= 0


def is_secret(value: str, name: str, *, password: bool, quoted: bool) -> bool:
    """Whether the value of `name`, which says password, or else token, is a secret."""
    if password:
        return plausible.is_secret(value, quoted=quoted)
    identifies = _ROW_KEY.search(name) or (_SESSION.search(name) and _UUID.fullmatch(value))
    return not identifies and plausible.is_random(value)
