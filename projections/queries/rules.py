"""Rules of a project and of every project: which are in force, and which users have only mentioned."""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from ingest.nouns.command import EVERY_PROJECT
from projections.nouns.access import Reader
from projections.nouns.memory import Memory, rules
from projections.nouns.trust import is_data
from projections.queries.documents import DocumentReader
from projections.text.wishes import relation

RULES_READ = 100
"""The newest of a project, and of every project."""


class Rules(NamedTuple):
    """Rules, mandatory ones first, imported ones last, else newest first; and what users said once, newest first."""

    in_force: list[Memory]
    suggested: list[Memory]


async def rules_of(documents: DocumentReader, reader: Reader, project: str) -> list[Memory]:
    """Returns the newest rules of a project that the reader can see, newest first."""
    page = await documents.newest(rules(reader.tenant, project), reader, project, None, RULES_READ, at_home=True)
    return [located.document for located in page.documents if isinstance(located.document, Memory)]


async def rules_for(documents: DocumentReader, reader: Reader, project: str) -> Rules:
    """Returns the rules for work on a project: its own and those of every project."""
    own, shared = await asyncio.gather(rules_of(documents, reader, project), rules_of(documents, reader, EVERY_PROJECT))
    # in a thread: 200 rules are compared in pairs
    return await asyncio.to_thread(sorted_out, [*own, *shared])


def sorted_out(candidates: Iterable[Memory]) -> Rules:
    """Returns the rules in force and the suggested ones. A rule is not in force if a newer one is about the same
    subject, unless it is mandatory; one that says the same is not repeated."""
    ranked = sorted(candidates, key=lambda rule: rule.occurred_at, reverse=True)
    ranked.sort(key=lambda rule: (not rule.mandatory, is_data(rule.trust)))
    in_force: list[Memory] = []
    suggested: list[Memory] = []
    for rule in ranked:
        if rule.is_suggested:
            suggested.append(rule)
        elif rule.mandatory or not any(relation(newer.content, rule.content) for newer in in_force):
            in_force.append(rule)
    return Rules(in_force, [rule for rule in suggested if not _is_in_force(rule, in_force)])


def _is_in_force(rule: Memory, in_force: Iterable[Memory]) -> bool:
    return any(relation(rule.content, other.content) == "repeats" for other in in_force)
