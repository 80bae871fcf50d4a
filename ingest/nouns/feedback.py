"""Feedback: what agents found of the memories and lessons that they were given.

First its event, then its command and the decision on it. Pure.
"""

from typing import Annotated, Literal

from msgspec import Meta

from ingest.events.envelope import EventData
from ingest.nouns.command import Command, Name, decides_about

Verdict = Literal["helped", "misled", "wrong", "outdated"]


class FeedbackGiven(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """An agent judged a memory or a lesson that it had been given. Its newest verdict counts."""

    TYPE = "feedback.given"

    document: str
    verdict: Verdict
    note: str = ""
    recall_id: str = ""


class GiveFeedback(Command, frozen=True, kw_only=True, tag="feedback"):
    """Judge a memory or a lesson."""

    document: Name
    verdict: Verdict
    note: Annotated[str, Meta(max_length=2000)] = ""
    recall_id: Name = ""


decides_about(GiveFeedback, FeedbackGiven, "document")
