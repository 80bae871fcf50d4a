"""Approved procedures as Agent Skills (agentskills.io): a folder with a SKILL.md for each, for coding agents."""

import re
from collections.abc import Iterable

from mnemolog_client.answers import Memory
from mnemolog_client.front_matter import with_front_matter

NAME_CHARS = 48
"""Of a skill's name, which may have 64; the rest is for what tells two of one title apart."""


def skills(memories: Iterable[Memory]) -> dict[str, str]:
    """Return the SKILL.md of each approved procedure, by the name of its folder.

    A procedure is a memory of type `procedural`; it is approved if it was confirmed, for example in the inbox.
    """
    texts = dict[str, str]()
    for memory in memories:
        if memory.memory_type != "procedural" or not memory.confirmations:
            continue
        words = re.sub(r"[\W_]+", "-", memory.title.lower()).strip("-")
        name = words[:NAME_CHARS].strip("-") or "procedure"
        if name in texts:
            name = f"{name}-{memory.id[-7:]}"
        where = f" of project {memory.project}" if memory.project else ""
        about = f"How to: {memory.title}. An approved procedure{where}; read it before you do this."
        body = f"\n# {memory.title}\n\n{memory.content.removeprefix(memory.title).strip()}\n"
        origin = ["metadata:", f"  mnemolog-id: {memory.id}"]
        texts[name] = with_front_matter({"name": name, "description": about}, origin, body)
    return texts
