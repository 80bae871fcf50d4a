"""Provides an embedder that stays live, in place of the one that follows the record in Redis."""

from projections.vectors.embedder import Embedder


class FixedEmbedder:
    """An embedder that never changes."""

    def __init__(self, embedder: Embedder) -> None:
        self.current = embedder
        self.spec = self.configured = embedder.model
        self.named = frozenset({embedder.model})

    async def refresh(self) -> Embedder:
        """Return the same embedder."""
        return self.current

    async def built(self, spec: str) -> Embedder:
        """Return the same embedder, whatever the spec."""
        return self.current
