"""Every way to condense in one hand: what the doors and the jobs hold."""

from ingest.platform.clock import Clock, system_clock
from projections.condensing.llm.assistant import Assistant
from projections.operations.condensing.consolidation import Consolidation, Pairs
from projections.operations.condensing.crystals import Crystals
from projections.operations.condensing.reflection import Reflection, SlotReflection
from projections.operations.condensing.summaries import SessionSummaries
from projections.operations.current import Current


class Condensing:
    """Makes summaries, crystals, consolidated memories, insights; condenses what has grown too many."""

    def __init__(self, current: Current, assistant: Assistant | None = None, clock: Clock = system_clock) -> None:
        """`assistant` is the model that summaries are made by; without one, the rules make them."""
        self.summarise = SessionSummaries(current, assistant).summarise
        self.reflect_slots = SlotReflection(current, clock).reflect_slots
        self.crystallize = Crystals(current, clock).crystallize
        self.consolidate = Consolidation(current).consolidate
        self.reflect = Reflection(current, clock).reflect
        self.condense_pair = Pairs(current).condense_pair
