# ruff: noqa: E501
"""Whether the value of something that is named like a secret is one, or code, a path, a placeholder, a word. Pure."""

import re
from base64 import b64decode
from binascii import Error

REDACTED = "[REDACTED"
_PLACEHOLDER = re.compile(
    r"(?i)^(?:x{3,}|\*+|\.{3,}|-+|_+|#+|\?+|<.*|\[.*|\{.*|\$[a-z_{(<].*|%[a-z_]+%|@[a-z_]+@|%[sdrv]|your[-_ ].*|my[-_]?(?:secret|token|password"
    r"|key|pass)\w*|(?:the[-_ ])?(?:pass(?:word|wd|phrase|code)?|passwort|pwd|secrets?|tokens?|api[-_]?key|keys?|auth|creds?|credentials?"
    r"|user(?:name)?|value|string|text|example|sample|dummy|fake|test|testing|placeholder|change[-_]?(?:me|it)?|replace[-_]?me|insert[-_]?.*"
    r"|todo|fixme|tbd|redacted|hidden|masked|removed|none|null|nil|undefined|true|false|yes|no|on|off|required|optional|invalid|missing"
    r"|wrong|correct|incorrect|empty|default|basic|bearer|digest|oauth2?|jwt|saml|ldap|n/?a|input|email|login|forgot|reset|new|old"
    r"|current|confirm|public|private|secure|enabled|disabled|plain|clear|raw|base64|int|str|bytes|any|boolean|number|object|array|char"
    r"|varchar|self|this|env|file|path|name|type|id|uuid|url|header|cookie|query|body|form|session|admin|root|foo|bar|baz|abc|asdf)[-_ ]?\d{0,2}"
    r"|(?:my|your|the|some|a|an|any|no|not|new|old|test|fake|dummy|example|sample)[-_](?:[a-z]+[-_])*[a-z]+"
    r"|(?:[a-z]+[-_])+(?:here|goes[-_]here|placeholder|example)|abc-?123|x+-x+.*)$"
)
_EXPRESSION = re.compile(
    r"""^(?:[A-Za-z_$][\w$]*\s*(?:\(|\[|\?\.|::|->|\{)|[({\[]|lambda\b|[fbru]{1,2}["']"""
    r"""|new\s|await\s|not\s|&[A-Za-z_]|\*[A-Za-z_]|[!~][A-Za-z_(]+\W*$|/[\^(]|@[A-Za-z]+[({]|[A-Za-z_]\w*[!?]?[|&,;)]+[A-Za-z_(]*$)"""
)
_PATH = re.compile(r"^(?:\.{0,2}/|~/|[A-Za-z]:[\\/]|[a-z][a-z0-9+.-]{1,20}:/{0,2}[^:@]*$)")
_FILE = re.compile(
    r"(?i)^[\w./-]+\.(?:py|js|ts|tsx|jsx|mjs|rb|go|rs|java|kt|c|h|cc|cpp|cs|php|sh|md|rst|txt|html?|css|json|ya?ml|toml|ini|cfg|conf|xml|pem|key"
    r"|crt|cer|p12|env|lock|log|svg|png|jpg|com|org|net|io|dev|local)(?:[:#]\d+)?$"
)
_CAMEL = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_VOWEL = re.compile(r"[aeiouyAEIOUY]")
_TECHNICAL = re.compile(
    r"(?i)^(?:base(?:16|32|58|62|64)|sha-?\d+|md[45]|utf-?(?:8|16|32)|oauth-?[12](?:\.[01a])?|pbkdf2|argon2(?:id?)?|rsa-?\d+|aes-?\d+|[hrpe]s(?:256|384|512)"
    r"|ed25519|ecdsa|x509|http[s2]?|http/[\d.]+|wpa\d|ipv[46]|ec2|s3|k8s|i18n|l10n|a11y|v\d+|p(?:12|256|384)|ascii85|des3|crypt\d?|level\d|python[23]|web3|log4j|utf8mb\d|int(?:8|16|32|64)|uint\d+|float\d+)$"
)
_ISO = re.compile(r"^\d{4}-\d\d-\d\d|^v?\d+(?:\.\d+)+|^\d{1,3}(?:[,.]\d+)+$|^0x[0-9a-fA-F]{1,8}$")
_PROSE = re.compile(
    r"(?i)\b(?:the|an?|is|are|was|be|must|should|your|you|for|to|of|with|not|please|enter|at|least|characters?|in|and|or|required|invalid"
    r"|forgot|reset|confirm|this|has|have|can|will|field|new|old|no|my|it|from|on|password|login|incorrect|empty)\b"
)


_LETTER = re.compile("[A-Za-z]")
_DIGIT = re.compile("[0-9]")
_NO_TOKEN = re.compile(r"""[()\[\]{}<>"'`,;\s]""")
_NO_PASSWORD = re.compile(r"""[()\[\]{}<>"'`]""")
_LONG = 20
"""Characters from which on letters alone can be a token."""
_LONGEST_WORD = 24
_BETWEEN_WORDS = re.compile(r"[-_./:+=@ &|,]|->")
_PLAIN_WORDS = re.compile(r"(?:[a-z]{1,12}[-_./:+=@ &|,]++)*+[a-z]{0,12}")
_LONGEST_WORDS = 40
"""A placeholder made of words is no longer."""
_MOST_WORDS = 8
"""After so many words a value is a name; what is behind them is found by its own shape or not at all."""


def is_secret(value: str, *, quoted: bool) -> bool:
    """Whether `value`, given to a name that says password or secret, is one."""
    if len(value) < 4 or _no_literal(value):
        return False
    if any(map(str.isspace, value)):
        return quoted and len(value) <= 64 and not _PROSE.search(value) and not re.search(r"[{}()<>]|\s[-=+]\s", value)
    if not quoted and _NO_PASSWORD.search(value):
        return False
    if not quoted and value.isdigit():
        return len(value) >= 6
    return not _is_identifier(value, digits=0)


def is_chosen(value: str) -> bool:
    """Whether a word in quotes, given to a name that says password, is one: also one that is only letters."""
    return len(value) >= 4 and not _no_literal(value) and not any(map(str.isspace, value)) and value.isalnum()


def is_phrase(value: str) -> bool:
    """Whether `value` in quotes is a pass phrase: some words in a row that make no sentence."""
    return value.count(" ") >= 3 and is_secret(value, quoted=True)


def is_random(value: str, *, least: int = 8) -> bool:
    """Whether `value`, given to a name that says token or key, looks made by a machine: letters and digits."""
    if len(value) < least or not _LETTER.search(value) or _NO_TOKEN.search(value):
        return False
    if not _DIGIT.search(value) and len(value) < _LONG:
        return False
    return not (_no_literal(value) or _ISO.search(value) or _is_identifier(value, digits=2))


def is_literal(value: str) -> bool:
    """Whether `value`, in a place where only a secret can stand, is one and no variable or placeholder."""
    return len(value) >= 3 and not _is_placeholder(value) and not value.startswith(REDACTED) and "$(" not in value


def is_prose_secret(value: str) -> bool:
    """Whether a word behind "the password is" is one: it has digits or signs that words do not have."""
    if len(value) < 4 or _no_literal(value) or _NO_PASSWORD.search(value):
        return False
    parts = re.split(r"[-_/.,:'’]", value)
    if all(part.isalpha() or not part or _TECHNICAL.match(part) for part in parts):
        return False
    if value.isdigit():
        return 4 <= len(value) <= 8
    return bool(re.search(r"[0-9!@#$%^&*~+=?]", value.rstrip("!?%"))) and not _ISO.search(value)


def is_documented(value: str) -> bool:
    """Whether `value` is a key that the documentation of AWS shows: they all end like this."""
    return len(value) >= 20 and value.endswith(("EXAMPLE", "EXAMPLEKEY"))


def is_basic(value: str) -> bool:
    """Whether `value` is base64 of `name:password`."""
    try:
        plain = b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (Error, ValueError):
        return False
    return b":" in plain and all(32 <= byte < 127 or byte > 0xBF or byte >= 0x80 for byte in plain)


def _is_placeholder(value: str) -> bool:
    return (len(value) <= _LONGEST_WORDS or value[0] in "<[{$%@*.xX") and _PLACEHOLDER.match(value) is not None


def _no_literal(value: str) -> bool:
    return bool(
        value.startswith(REDACTED)
        or is_documented(value)
        or _is_placeholder(value)
        or is_code(value)
        or len(set(value)) <= 2
    )


def _is_identifier(value: str, *, digits: int) -> bool:
    """Whether `value` is a name made of words, as programs have them, with at most so many digits behind a word."""
    if is_words(value):
        return True
    parts = [part for part in _BETWEEN_WORDS.split(value, _MOST_WORDS) if part]
    return bool(parts) and all(_is_word(part, digits) for part in parts[:_MOST_WORDS])


def _is_word(part: str, digits: int) -> bool:
    if not part.isalpha():
        if (digits and part.isdigit() and len(part) <= 4) or _TECHNICAL.match(part):
            return True
        word = part.rstrip("0123456789")
        if len(part) - len(word) > digits or not word.isalpha():
            return False
        part = word
    if len(part) < 4 or not part.isascii():
        return part.isascii()
    words = [part] if part.islower() or part.istitle() else _CAMEL.findall(part)
    if len(part) < 2.6 * len(words):
        return False
    return all(
        len(item) < 4 or (len(item) <= _LONGEST_WORD and len(_VOWEL.findall(item)) * 6 >= len(item)) for item in words
    )


def is_words(value: str) -> bool:
    """Whether `value` is nothing but small words."""
    return _PLAIN_WORDS.fullmatch(value) is not None


def is_code(value: str) -> bool:
    """Whether `value` is an expression, a path or a name of a file, and so no secret."""
    return bool(_EXPRESSION.match(value) or _PATH.match(value) or _FILE.match(value))
