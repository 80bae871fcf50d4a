"""What this door has beside the services of all: its counters, and what its settings say."""

from typing import NamedTuple

from api.dialects.agentd.metrics import ServiceMetrics
from ingest.platform.settings import Settings

VERSION = "0.2.0"
"""Of the agentd whose API this is: what its clients show."""


class Own(NamedTuple):
    """`strict`: whoever does not say who asks sees only what is public."""

    metrics: ServiceMetrics
    strict: bool

    @classmethod
    def of(cls, settings: Settings) -> "Own":
        """As the settings say, with every counter at 0."""
        return cls(ServiceMetrics(VERSION), settings.agentd_strict)
