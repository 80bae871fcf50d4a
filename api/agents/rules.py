"""The text that tells an agent when to recall and when to remember, as each host reads it, and how it comes and goes.

The text is the plugin's skill. Elsewhere it is a file of ours, or a block between two comments in a file of the user's.
The comment at its end has a digest of what stands before: what somebody changed is left as it is. Pure but for `rules`.
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
    """The text for all hosts: what it is for, in one sentence or two, and what it says."""

    description: str
    body: str

    def skill(self) -> str:
        """For Claude Code, which reads the body when the description fits."""
        return f"---\nname: {SKILL}\ndescription: {self.description}\n---\n\n{self.body}"

    def cursor(self) -> str:
        """For Cursor, in every request of its agent."""
        return f"---\ndescription: {self.description}\nglobs:\nalwaysApply: true\n---\n\n{self.body}"

    def vscode(self) -> str:
        """For VS Code, in every chat request."""
        return f'---\napplyTo: "**"\n---\n\n{self.body}'

    def windsurf(self) -> str:
        """For Windsurf, in every conversation."""
        return f"---\ntrigger: always_on\n---\n\n{self.body}"


def rules() -> Rules:
    """The text, from the plugin's skill."""
    _, front, body = _SOURCE.read_text(encoding="utf-8").split("---\n", 2)
    return Rules(front.partition("description: ")[2].strip(), body.strip() + "\n")


def with_file(text: str, content: str) -> str:
    """A file of ours, brought up to date. Raises NotOurs for one that somebody else wrote or changed."""
    if text.strip() and not _is_ours(text):
        raise ForeignFile("somebody else wrote it; it is left as it is")
    return _signed(content, text)


def without_file(text: str) -> str:
    """Nothing in the place of a file of ours; another's as it is. Raises NotOurs for one of ours that was changed."""
    return "" if _is_ours(text) else text


def with_block(text: str, content: str) -> str:
    """The text with our block, where it stands or at the end. Raises NotOurs for a block that somebody changed."""
    if found := _block(text):
        return text[: found.start()] + _marked(content, found[0]) + text[found.end() :]
    return text + _lines_as(text, "\n") + _marked(content, text)


def without_block(text: str) -> str:
    """The text without our block, nor the line break before it, which came with it. Raises NotOurs as `with_block`."""
    if (found := _block(text)) is None:
        return text
    return text[: found.start()].removesuffix("\r\n" if "\r\n" in found[0] else "\n") + text[found.end() :]


def _is_ours(text: str) -> bool:
    """Whether we wrote it. Raises NotOurs when we did, and somebody changed it."""
    found = _FILE.fullmatch(text)
    if found and _digest(found[1]) != found[2]:
        raise ForeignFile(
            "it was changed after it was installed; it is left as it is: delete it to have it written anew"
        )
    return found is not None


def _block(text: str) -> re.Match[str] | None:
    if not _MARKS.search(text):
        return None
    found = _BLOCK.search(text)
    if found is None or len(_MARKS.findall(text)) != 2 or _digest(found[1]) != found[2]:
        raise ForeignFile("mnemolog's block was changed after it was installed; delete it to have it written anew")
    return found


def _marked(content: str, like: str) -> str:
    return _lines_as(like, f"{_BEGIN}\n") + _signed(content, like)


def _signed(content: str, like: str) -> str:
    return _lines_as(like, f"{content}<!-- /mnemolog {_digest(content)} -->\n")


def _digest(text: str) -> str:
    """The same whatever the line ends are: git may change them."""
    return sha256(text.replace("\r\n", "\n").encode()).hexdigest()[:8]


def _lines_as(like: str, text: str) -> str:
    return text.replace("\n", "\r\n") if "\r\n" in like else text
