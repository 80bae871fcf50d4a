"""The rules on when to recall and remember: their form in each host, and how to add and remove them.

The text is the plugin's skill. In other hosts it is a file of ours, or a block between two comments in a user's file.
The comment at its end has a digest of the text, so that a changed text is left alone. Pure except for `rules`.
"""

import re
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from api.agents.entries import ForeignFile

SKILL = "mnemolog-memory"
"""The name of the skill, and of its folder."""
_SOURCE = Path(__file__).parent / "plugin/skills/memory/SKILL.md"
_BEGIN = "<!-- mnemolog -->"
_END = r"<!-- /mnemolog ([0-9a-f]{8}) -->"
_FILE = re.compile(rf"(.*?){_END}\s*", re.DOTALL)
_BLOCK = re.compile(rf"^{_BEGIN}\r?\n(.*?)^{_END}[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_MARKS = re.compile(rf"^(?:{_BEGIN}|{_END})", re.MULTILINE)


class Rules(NamedTuple):
    """The text for all hosts, and a short description."""

    description: str
    body: str

    def skill(self) -> str:
        """For Claude Code, which reads the body if the description matches."""
        return f"---\nname: {SKILL}\ndescription: {self.description}\n---\n\n{self.body}"

    def always(self, host: str) -> str:
        """For hosts that read the rules in every conversation: `cursor`, `vscode` or `windsurf`."""
        front = {
            "cursor": f"description: {self.description}\nglobs:\nalwaysApply: true",
            "vscode": 'applyTo: "**"',
            "windsurf": "trigger: always_on",
        }
        return f"---\n{front[host]}\n---\n\n{self.body}"


def rules() -> Rules:
    """The text, from the plugin's skill."""
    _, front, body = _SOURCE.read_text(encoding="utf-8").split("---\n", 2)
    return Rules(front.partition("description: ")[2].strip(), body.strip() + "\n")


def with_file(text: str, content: str) -> str:
    """Our file, updated. Raises ForeignFile if others wrote or changed it."""
    if text.strip() and not _is_ours(text):
        raise ForeignFile("it was not written by mnemolog; it is left unchanged")
    return _signed(content, text)


def without_file(text: str) -> str:
    """An empty text for our file; another one unchanged. Raises ForeignFile if ours was changed."""
    return "" if _is_ours(text) else text


def with_block(text: str, content: str) -> str:
    """The text with our block, in place or at the end. Raises ForeignFile if the block was changed."""
    if match := _block(text):
        return text[: match.start()] + _marked(content, match[0]) + text[match.end() :]
    return text + _lines_as(text, "\n") + _marked(content, text)


def without_block(text: str) -> str:
    """The text without our block and the line break before it. Raises ForeignFile like `with_block`."""
    if (match := _block(text)) is None:
        return text
    return text[: match.start()].removesuffix("\r\n" if "\r\n" in match[0] else "\n") + text[match.end() :]


def _is_ours(text: str) -> bool:
    """Whether it is our file. Raises ForeignFile if it is, but was changed."""
    match = _FILE.fullmatch(text)
    if match and _digest(match[1]) != match[2]:
        raise ForeignFile("it was changed after installation and is left unchanged; delete it to have it written again")
    return match is not None


def _block(text: str) -> re.Match[str] | None:
    if not (marks := _MARKS.findall(text)):
        return None
    match = _BLOCK.search(text) if len(marks) == 2 else None
    if match is None or _digest(match[1]) != match[2]:
        raise ForeignFile("mnemolog's block was changed after installation; delete it to have it written again")
    return match


def _marked(content: str, like: str) -> str:
    return _lines_as(like, f"{_BEGIN}\n") + _signed(content, like)


def _signed(content: str, like: str) -> str:
    return _lines_as(like, f"{content}<!-- /mnemolog {_digest(content)} -->\n")


def _digest(text: str) -> str:
    """Independent of line endings, which git may change."""
    return sha256(text.replace("\r\n", "\n").encode()).hexdigest()[:8]


def _lines_as(like: str, text: str) -> str:
    return text.replace("\n", "\r\n") if "\r\n" in like else text
