"""Passwords that a sentence in another script names. RE2 sees no letter of it: the text it gets is ASCII.

Languages in Latin letters are in rules.toml, with `?` for a letter that ASCII lacks.
"""

import re
from collections.abc import Iterator

from ingest.secrets import plausible

WORDS = (
    "парол[ьяюе]м?|Парол[ьяюе]м?|密[码碼]|口令|暗号|パスワード|パスフレーズ|暗証番号|비밀번호|패스워드|암호|κωδικός|סיסמ[הא]"
    "|كلمة (?:المرور|السر)|पासवर्ड|รหัสผ่าน"
)
_WORD = re.compile(WORDS)
_BEFORE = re.compile(
    rf"""([!-~]{{4,64}}?)["'`»」』”]*\s*(?:[—–-]\s*(?:это\s+)?|это\s+|是|が|は|이|가)[^\n!-~]{{0,12}}?(?:{WORDS})"""
)
_AFTER = re.compile(
    r"""[^\n:：=!-~]{0,40}?(?:\s*[:：=—–-]{1,2}|是|为|為|は|が|는|은|이|设[为成]|είναι|היא|هي|है|คือ|\s)\s*[«"'`“„「『（(*]*\s*([!-~]{4,64})"""
)


def mentions_password(text: str) -> bool:
    """Whether a text has a word for password in a script that is not Latin."""
    return _WORD.search(text) is not None


def find(raw: bytes, text: str) -> Iterator[tuple[int, int]]:
    """The places of values after and before such a word."""
    places = [_AFTER.match(text, word.end()) for word in _WORD.finditer(text)]
    for found in (*places, *_BEFORE.finditer(text)):
        value = found[1].rstrip(".,;:)]}\"'`") if found else ""
        if found and plausible.is_prose_secret(value):
            yield found.start(1), found.start(1) + len(value)
