"""What every agent wrote last through this server, so that its reads can wait for it. Bounded."""

from collections import OrderedDict

from ingest.log.position import SharedPositions, Token

MAX_AGENTS = 10_000


class LastWrites:
    """One token an agent, covering all its writes here; the agent that wrote longest ago is forgotten first.

    A forgotten agent only loses the wait: its reads are answered as the projections stand. Where several processes are
    on one port, `shared` has what the others acknowledged.
    """

    def __init__(self, limit: int = MAX_AGENTS, shared: SharedPositions | None = None) -> None:
        self._limit, self.shared = limit, shared
        self._tokens: OrderedDict[str, Token] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tokens)

    def wrote(self, agent: str, position: str) -> None:
        """Take note of an acknowledged write; `position` is what the acknowledgement says."""
        written = Token.parse(position)
        token = self._tokens.setdefault(agent, Token())
        token.include_all(written)
        self._tokens.move_to_end(agent)
        if len(self._tokens) > self._limit:
            self._tokens.popitem(last=False)
        if self.shared is not None:
            self.shared.wrote(_name(agent), written)

    def after(self, *agents: str) -> str:
        """The position that a read waits for which is to see the writes of these; empty when nothing is known."""
        token = Token()
        for agent in agents:
            token.include_all(self._tokens.get(agent, Token()))
            if self.shared is not None:
                token.include_all(self.shared.after(_name(agent)))
        return str(token)


def _name(agent: str) -> str:
    return f"agent\0{agent}"
