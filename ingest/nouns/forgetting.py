"""The commands to forget and to hide, and the events they become."""

from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from ingest.events.subject import (
    MAX_FORGOTTEN,
    MemoryQuarantined,
    ObservationQuarantined,
    SubjectForgotten,
)
from ingest.kinds import OBSERVATION, OF_A_PROJECT, SubjectKind
from ingest.nouns.command import Command, Decision, Name, Origin, ReasonText, about, data_of, decides, need_session

_OF_A_PROJECT = [kind.name for kind in OF_A_PROJECT]


class ForgetSubject(Command, frozen=True, kw_only=True, tag="forget"):
    """Forget a subject that the caller has looked up: its place (project, session) and its documents are known.

    `kept` and `sources`: see SubjectForgotten.
    """

    kind: SubjectKind
    subject: Name
    reason: ReasonText = ""
    documents: Annotated[list[Name], Meta(max_length=MAX_FORGOTTEN)] = []
    kept: Annotated[list[Name], Meta(max_length=MAX_FORGOTTEN)] = []
    sources: list[Name] = []
    causation: Name = ""


@decides(ForgetSubject, keep_names=True)
def _forget(command: ForgetSubject, origin: Origin) -> Decision:
    # the tombstone goes into the stream of what it forgets: with documents the caller names that stream, else the kind
    # of the subject decides
    if not command.documents and (command.kept or command.kind in _OF_A_PROJECT):
        command = replace(command, session_id="")
    elif not command.documents and command.kind == "observation":
        need_session(command)
    return about(command.subject, command, origin, data_of(SubjectForgotten, command), command.causation)


class Quarantine(Command, frozen=True, kw_only=True, tag="quarantine"):
    """Put a document that the caller has looked up into quarantine, or take it out; see MemoryQuarantined."""

    document: Name
    released: bool = False
    reason: ReasonText = ""


@decides(Quarantine, keep_names=True)
def _quarantine(command: Quarantine, origin: Origin) -> Decision:
    of_session = command.document.startswith(f"{OBSERVATION}_")
    data = data_of(ObservationQuarantined if of_session else MemoryQuarantined, command)
    return about(command.document, command, origin, data)
