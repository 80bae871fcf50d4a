"""Several commands for one caller, and the position that covers them all."""

from ingest.commands.decide import Caller
from ingest.commands.handler import Accepted
from ingest.commands.requests import AnyCommand
from ingest.log.position import Token
from projections.operations.current import Current


class Writing:
    """Commands given one after another."""

    def __init__(self, current: Current, caller: Caller, position: str = "") -> None:
        """`position`: of what was written before, and is to be covered, too."""
        self._current, self._caller = current, caller
        self._token = Token.parse(position) if position else Token()

    async def give(self, command: AnyCommand) -> Accepted:
        """Append a command's event. Raises what the command handler raises."""
        accepted = await self._current.give(command, self._caller)
        self._token.include_all(Token.parse(accepted.position))
        return accepted

    @property
    def position(self) -> str:
        """Covers all that was written; empty for nothing."""
        return str(self._token)
