"""Approved procedures as Agent Skills (agentskills.io): a folder with a SKILL.md for each, for coding agents."""

import re
from collections.abc import Iterable

from mnemolog_client.answers import Memory
from mnemolog_client.front_matter import with_front_matter

NAME_CHARS, PROJECT_CHARS = 48, 200
"""Of a skill's name, which may have 64 with the suffix that makes it unique; of a project in its description."""
ORIGIN = "mnemolog-id:"
"""In the front matter of every exported skill."""
TRUSTED = ("user_stated", "agent_concluded")
"""Trust classes whose text may instruct an agent."""
DISPUTED_BY = 3
"""Writers that call a memory wrong after it was confirmed."""


def is_approved(memory: Memory) -> bool:
    """Return whether a memory is a procedure of which this version was confirmed, and which is not disputed since.

    An approved one is shown to agents as an instruction, so text of tools, imports and the web is never approved.
    """
    confirmed_at = memory.confirmed_at
    if memory.memory_type != "procedural" or confirmed_at is None or confirmed_at < memory.recorded_at:
        return False
    wrong = [verdict for verdict in memory.verdicts if verdict.verdict == "wrong" and verdict.at > confirmed_at]
    return memory.trust in TRUSTED and len(wrong) < DISPUTED_BY


def skills(memories: Iterable[Memory]) -> dict[str, str]:
    """Return the SKILL.md of each approved procedure, by the name of its folder."""
    texts = dict[str, str]()
    for memory in memories:
        if not is_approved(memory):
            continue
        words = re.sub(r"[\W_]+", "-", memory.title.lower()).strip("-")
        name = words[:NAME_CHARS].strip("-") or "procedure"
        if name in texts:
            name = f"{name}-{memory.id[-7:]}"
        where = f" of project {memory.project[:PROJECT_CHARS]}" if memory.project else ""
        first, _, rest = memory.content.partition("\n")
        text = rest if first.strip() == memory.title else memory.content
        about = f"How to: {memory.title}. An approved procedure{where}; read it before you do this."
        body = f"\n# {memory.title}\n\n{text.strip()}\n"
        origin = ["metadata:", f"  {ORIGIN} {memory.id}"]
        texts[name] = with_front_matter({"name": name, "description": about}, origin, body)
    return texts
