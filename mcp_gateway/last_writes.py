"""What every agent wrote last through this process, so that its reads can wait for it. Pure, and bounded."""

from collections import OrderedDict

from ingest.log.position import Token

MAX_AGENTS = 10_000


class LastWrites:
    """One token an agent, covering all its writes here; the agent that wrote longest ago is forgotten first.

    A forgotten agent only loses the wait: its reads are answered as the projections stand.
    """

    def __init__(self, limit: int = MAX_AGENTS) -> None:
        self._limit = limit
        self._tokens: OrderedDict[str, Token] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tokens)

    def wrote(self, agent: str, position: str) -> None:
        """Take note of an acknowledged write; `position` is what the acknowledgement says."""
        token = self._tokens.setdefault(agent, Token())
        token.include_all(Token.parse(position))
        self._tokens.move_to_end(agent)
        if len(self._tokens) > self._limit:
            self._tokens.popitem(last=False)

    def after(self, *agents: str) -> str:
        """The position that a read waits for which is to see the writes of these; empty when nothing is known."""
        token = Token()
        for agent in agents:
            token.include_all(self._tokens.get(agent, Token()))
        return str(token)
