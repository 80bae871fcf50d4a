"""Claims of actions: which agent works on what, and until when.

The fold arbitrates (`projections.nouns.action`): an operation appends the request and returns what the fold decided. So
two agents never hold one action, a lease is measured by the log's clock only, and a replay decides the same.
"""

from collections.abc import AsyncIterator, Sequence

from msgspec import convert
from msgspec.structs import asdict

from ingest.commands.decide import Caller, ClaimActions, ReleaseClaim, RenewClaim
from ingest.errors import ChangeRefused, NotFound, NothingToClaim, NotReady
from ingest.events.envelope import EventData
from ingest.ids import DocumentId, new_event_id
from ingest.nouns.action import ActionClaimed, ActionReleased, ActionRenewed
from ingest.platform.clock import system_clock, to_ms
from projections.nouns.access import Reader, may_read
from projections.nouns.action import Action, conflicts, is_ready, neighbor_ids, queue, refused_claim
from projections.operations.current import Applied, Current
from projections.queries.views import view
from projections.queries.work import ActionView

CANDIDATES = 20
"""Actions that one request for the next free one names. With fewer, agents that ask together lose against each other;
each one more costs 30 bytes of the log per request."""
PAGE = 2 * CANDIDATES
"""Actions of the queue that are read at once. With five times as many, 64 agents claimed half as many a second."""
ROUNDS = 50
"""Requests until the queue is given up: a thousand actions that other agents took first."""


class Claim(Applied, frozen=True, kw_only=True):
    """A claim that is valid until `expires_at`: its fencing token, and the action.

    Pass the token to renew, release or complete the claim, and to whatever the work changes elsewhere. A later claim of
    the action has a greater position, so a store that remembers the greatest one can refuse an agent that lost its
    claim.
    """

    token: str
    action: ActionView


class Claims:
    """Claims, renews and releases actions."""

    def __init__(self, current: Current) -> None:
        self._current, self._documents = current, current.documents

    async def claim(self, name: str, lease_seconds: int, reader: Reader, caller: Caller, event_id: str = "") -> Claim:
        """Claim an action. Repeated with its event id, it returns the same claim.

        Raises NotFound, AlreadyClaimed (also while this agent holds it), NotReady or AlreadyFinished.
        """
        home, action = await self._current.find(name, Action, reader)
        is_free = refused_claim(action, caller.agent_id, to_ms(system_clock())) is None
        if is_free and not await self._ready(home, [action]):  # else the fold says why, or that it is a repeat
            raise NotReady(action.version, action.changed_by, None)
        command = ClaimActions(
            event_id=event_id, project=action.project, actions=[action.id], lease_seconds=lease_seconds
        )
        return await self._decided(command, ActionClaimed, caller)

    async def claim_next(
        self,
        project: str,
        labels: Sequence[str],
        lease_seconds: int,
        reader: Reader,
        caller: Caller,
        event_id: str = "",
    ) -> Claim:
        """Claim the best free action of a project: the highest priority, then the oldest.

        With labels, one that has any of them as a tag. Left out: actions that wait for others, conflict with one in
        progress, or are assigned to another agent. Raises NothingToClaim if none is free.
        """
        await self._current.settle_project(caller.tenant, project)
        event_id, tried = event_id or new_event_id(), set[str]()
        for number in range(ROUNDS):
            candidates = await self._free(project, labels, reader, caller.agent_id, tried)
            if not candidates:
                break
            tried.update(candidates)
            command = ClaimActions(
                event_id=f"{event_id}:{number}" if number else event_id,
                project=project,
                actions=candidates,
                lease_seconds=lease_seconds,
            )
            try:
                return await self._decided(command, ActionClaimed, caller)
            except (ChangeRefused, NotFound):
                continue  # other agents were faster; the queue has more
        raise NothingToClaim(f"no action of project {project!r} is free")

    async def renew(
        self, name: str, token: str, lease_seconds: int, reader: Reader, caller: Caller, event_id: str = ""
    ) -> Claim:
        """Have a claim end `lease_seconds` from now instead; raises NotFound, or StaleToken for an ended claim."""
        _, action = await self._current.find(name, Action, reader)
        command = RenewClaim(
            event_id=event_id, project=action.project, action=action.id, token=token, lease_seconds=lease_seconds
        )
        return await self._decided(command, ActionRenewed, caller, token)

    async def release(self, name: str, token: str, reader: Reader, caller: Caller, event_id: str = "") -> Applied:
        """End a claim, unfinished: the action is free. Raises NotFound, or StaleToken for an ended claim."""
        _, action = await self._current.find(name, Action, reader)
        command = ReleaseClaim(event_id=event_id, project=action.project, action=action.id, token=token)
        return await self._current.decided(command, ActionReleased, caller)

    async def _decided(
        self, command: ClaimActions | RenewClaim, event: type[EventData], caller: Caller, token: str = ""
    ) -> Claim:
        applied = await self._current.decided(command, event, caller)
        partition, _, position = applied.position.partition(":")
        (action,) = await self._documents.get([(int(partition), DocumentId(applied.id))])
        if not isinstance(action, Action):  # deleted since
            raise NotFound(f"there is no action {applied.id!r}")
        return Claim(**asdict(applied), token=token or position, action=convert(view(action), ActionView))

    async def _free(
        self, project: str, labels: Sequence[str], reader: Reader, agent_id: str, tried: set[str]
    ) -> list[str]:
        """The best actions that an agent can claim now, except those it tried."""
        if not reader.key_scope.allows(project):
            return []
        home, now = self._documents.home(reader.tenant, project), to_ms(system_clock())
        free: list[str] = []
        async for names in self._queued([queue(reader.tenant, project, label) for label in labels or [""]], home):
            actions = await self._actions(home, [name for name in names if name not in tried])
            for action in await self._ready(home, list(actions.values())):
                is_mine = action.assigned_to in ("", agent_id)
                if is_mine and may_read(action, reader) and not refused_claim(action, agent_id, now):
                    free.append(action.id)
            if len(free) >= CANDIDATES:
                break
        return free[:CANDIDATES]

    async def _ready(self, home: int, actions: Sequence[Action]) -> list[Action]:
        """Those of the actions that wait for no other one, and conflict with none in progress."""
        listed = await self._documents.members_of([conflicts(action.id) for action in actions], [home])
        stated = [name for action in actions for name in neighbor_ids(action)]
        others = list((await self._actions(home, [*listed, *stated])).values())
        now = to_ms(system_clock())
        return [action for action in actions if is_ready(action, others, now)]

    async def _actions(self, home: int, names: Sequence[str]) -> dict[str, Action]:
        documents = await self._documents.get([(home, DocumentId(name)) for name in names])
        return {document.id: document for document in documents if isinstance(document, Action)}

    async def _queued(self, listings: Sequence[str], home: int) -> AsyncIterator[list[str]]:
        """The ids in several listings, best first, each once, in pages."""
        low = b"-"
        while True:
            pages = await self._documents.ranges([(listing, home) for listing in listings], low, limit=PAGE)
            # members after the end of a full page have to wait for the rest of its listing
            until = min((page[-1] for page in pages if len(page) == PAGE), default="~")
            members = sorted({member for page in pages for member in page if member <= until})
            yield [member.rpartition("|")[2] for member in members]
            if until == "~":
                return
            low = b"(" + until.encode()
