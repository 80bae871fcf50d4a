"""Forgetting everything but what is to be kept, project by project, listing by listing."""

from collections.abc import Collection, Sequence

from ingest.commands.decide import Caller
from ingest.log.position import Token
from projections.documents.access import Reader, may_read
from projections.documents.actions import actions
from projections.documents.lessons import lessons
from projections.documents.memories import memories
from projections.documents.observations import session_observations
from projections.documents.relations import relations
from projections.documents.sessions import Session, sessions
from projections.documents.slots import slots
from projections.operations.current import Current
from projections.operations.forget import Forgetting
from projections.operations.retired import Retired
from projections.queries.browse import Browse

PAGE = 200
REASON = "import: replace"


class Clear:
    """Forgets what somebody has replaced."""

    def __init__(self, current: Current, forgetting: Forgetting, browse: Browse) -> None:
        self._documents, self._forgetting, self._browse = current.documents, forgetting, browse
        self._retired = Retired(current.documents, current.log)

    async def others(self, kept: Collection[str], reader: Reader, caller: Caller) -> Token:
        """Forget all documents but these, as far as the reader may; returns the position behind all of it.

        Raises what forgetting raises, on the way: repeating it goes on.
        """
        token, everywhere = Token(), range(self._documents.partitions)
        projects = {"", *await self._browse.projects(reader)}
        projects |= {one.project for one in (await self._browse.open_work(reader, None)).actions.values()}
        cursor: str | None = None
        while True:
            page = await self._documents.page(
                sessions(reader.tenant), everywhere, cursor=cursor, limit=PAGE, newest_first=False
            )
            for partition, session in page.documents:
                if not isinstance(session, Session) or not may_read(session, reader):
                    continue
                projects.add(session.project)
                if session.id in kept:
                    listing = session_observations(session.id)
                    await self._forget(listing, [partition], kept, reader, caller, token)
                    async for seen in self._retired.of_session(session):
                        names = [one.id for one in seen if one.id not in kept]
                        await self._forget_names(names, kept, reader, caller, token)
                else:
                    gone = await self._forgetting.session(session, caller, reason=REASON)
                    token.include_all(Token.parse(gone.position))
            if (cursor := page.next) is None:
                break
        for project in sorted(projects):
            for listing in (memories, lessons, slots, actions, relations):
                await self._forget(listing(reader.tenant, project), everywhere, kept, reader, caller, token)
        return token

    async def _forget(
        self, listing: str, partitions: Collection[int], kept: Collection[str], reader: Reader, caller: Caller,
        token: Token,
    ) -> None:  # fmt: skip
        cursor: str | None = None
        while True:
            page = await self._documents.page(listing, list(partitions), cursor=cursor, limit=PAGE, newest_first=False)
            names = [one.document.id for one in page.documents if one.document.id not in kept]
            await self._forget_names(names, kept, reader, caller, token)
            if (cursor := page.next) is None:
                return

    async def _forget_names(
        self, names: Sequence[str], kept: Collection[str], reader: Reader, caller: Caller, token: Token
    ) -> None:
        if names:
            gone = await self._forgetting.documents(names, reader, caller, reason=REASON, kept=kept)
            token.include_all(Token.parse(gone.position) if gone.position else {})
