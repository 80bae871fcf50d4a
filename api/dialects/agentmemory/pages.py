"""The WebSocket for viewers.

It sends every observation as soon as it is readable. Best effort, and bounded: one task follows the log for all viewers
with the same access, while there are any. It never waits for a viewer: one whose queue fills up is disconnected. If
more than AT_ONCE observations are written in PAUSE_S, some are skipped.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Any

import msgspec
from redis.exceptions import RedisError
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from api.access.admission import POLICY_VIOLATION, TRY_LATER, guarded
from api.access.keys import still_holds
from api.dialects.agentmemory.records import Record, observation_record
from api.services import NativeCall, services_of
from ingest.errors import CommandRejected, MnemologError
from ingest.nouns.observation import ObservationRecorded
from ingest.platform.tasks import end
from ingest.roles import READ
from projections.nouns.access import Reader
from projections.nouns.observation import Observation
from projections.queries.log_events import EventFilter
from projections.queries.views import view

logger = logging.getLogger(__name__)
# Older pages join a stream at the root when the first does not answer; nothing they send is needed.
PATHS = ("/stream/mem-live/viewer", "/")
MAX_VIEWERS = 100
# Of a viewer; viewers that wait for the same frame share it.
MAX_WAITING_CHARS = 4 << 20
AT_ONCE = 200
PAUSE_S = 0.1
# How much is sent before viewers and other requests get a turn: a viewer that keeps reading never falls behind.
SLICE_CHARS, SLICE_S = 128 << 10, 0.005
CLOSE_S = 1.0
# Of what came as it was; a whole screenshot is left out, and the frame says so.
MAX_RAW_BYTES = 128 << 10
_RAW = ("raw", "toolName", "toolInput", "toolOutput", "userPrompt")
_BOTH = ("id", "sessionId", "timestamp", "hookType", "project", "agentId")


class Viewer:
    """What one viewer has not been sent yet."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._chars = 0
        self.too_slow = asyncio.Event()
        """Set once its queue is full: what it would see has gaps, so it is disconnected."""
        self.key_revoked = False
        """Whether its key is no longer valid."""

    def offer(self, frame: str) -> None:
        """Queue a frame; a viewer whose queue is full is marked too slow."""
        if self._chars + len(frame) > MAX_WAITING_CHARS:
            self.too_slow.set()
            return
        self._waiting.put_nowait(frame)
        self._chars += len(frame)

    async def next(self) -> str:
        """The frame that waits longest, once there is one."""
        frame = await self._waiting.get()
        self._chars -= len(frame)
        return frame


class ViewerStream:
    """The viewers that are connected."""

    def __init__(self) -> None:
        self._audiences: dict[Reader, Audience] = {}

    async def serve(self, socket: WebSocket) -> None:
        """Serve one viewer until it leaves or is let go; closes with 1013 past MAX_VIEWERS."""
        await socket.accept()
        services = services_of(socket.scope)
        try:
            reader = services.call("agentmemory").reader()
        except CommandRejected as refused:
            await socket.close(POLICY_VIOLATION, refused.message[:100])
            return
        if sum(len(audience.viewers) for audience in self._audiences.values()) >= MAX_VIEWERS:
            await socket.close(TRY_LATER, "too many viewers are connected")
            return
        viewer = Viewer()
        audience = self._audiences.setdefault(reader, Audience(services, reader))
        audience.join(viewer)
        try:
            await _first_to_end(_send(socket, viewer), _until_closed(socket), viewer.too_slow.wait())
        finally:
            audience.viewers.discard(viewer)
            if not audience.viewers:
                self._audiences.pop(reader, None)
                await audience.stop()
        if viewer.key_revoked:
            await _close(socket, POLICY_VIOLATION, "the key is no longer valid")
        elif viewer.too_slow.is_set():
            await _close(socket, TRY_LATER, "this viewer is too slow")


class Audience:
    """The viewers with the same access, and the task that follows the log for them."""

    def __init__(self, services: NativeCall, reader: Reader) -> None:
        self._services, self._reader = services, reader
        self.viewers: set[Viewer] = set()
        self._following: asyncio.Task[None] | None = None

    def join(self, viewer: Viewer) -> None:
        """Add a viewer."""
        self.viewers.add(viewer)
        if self._following is None:
            self._following = asyncio.create_task(self._follow(), name="viewers")

    async def stop(self) -> None:
        """Stop following the log once there are no viewers."""
        following, self._following = self._following, None
        await end(following)

    async def _follow(self) -> None:
        while True:
            try:
                await self._show()
            except (MnemologError, RedisError, OSError) as error:
                logger.warning("the viewers' stream has a gap: %s", error)
            except Exception:  # a bug on one page of the log: the viewers continue with the next page
                logger.exception("the viewers' stream has a gap")
            await asyncio.sleep(1)

    async def _show(self) -> None:
        queries, event_filter = self._services.queries, EventFilter(self._reader, ObservationRecorded.TYPE)
        at = queries.log.applied()
        async for page in queries.log.follow(event_filter, at, AT_ONCE):
            observations = await queries.observations.recorded_by(page, self._reader)
            sent_chars = 0
            for observation in sorted(observations, key=lambda observation: observation.recorded_at):
                for frame in frames(observation):
                    sent_chars += len(frame)
                    for viewer in self.viewers:
                        viewer.offer(frame)
                if sent_chars > SLICE_CHARS:
                    sent_chars = 0
                    await asyncio.sleep(SLICE_S)
            if len(page) == AT_ONCE:
                await asyncio.sleep(PAUSE_S)
                at.include_all(queries.log.applied())


async def _send(socket: WebSocket, viewer: Viewer) -> None:
    while not viewer.key_revoked:
        frame = await viewer.next()
        if await still_holds(socket.scope):
            await socket.send_text(frame)
        else:
            viewer.key_revoked = True


async def _until_closed(socket: WebSocket) -> None:
    """Return when the viewer leaves; its messages until then are ignored."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def _first_to_end(*parts: Coroutine[Any, Any, Any]) -> None:
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if not isinstance(error := task.exception(), WebSocketDisconnect | None):
                raise error
    finally:
        await end(*tasks)


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    """Close the connection of a viewer that stopped reading; it may not read this either."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await socket.close(code, reason)
    except (TimeoutError, WebSocketDisconnect, RuntimeError):
        logger.info("disconnected a viewer that stopped reading")


def routes() -> list[WebSocketRoute]:
    """The routes of the stream, on one set of viewers."""
    live = ViewerStream()
    return [guarded(WebSocketRoute(path, live.serve), READ) for path in PATHS]


def frames(observation: Observation) -> tuple[str, str]:
    """The two frames of an observation, as JSON texts."""
    record = observation_record(view(observation))
    both = _only(record, _BOTH)
    raw = _frame("raw", {**both, **_only(record, _RAW)})
    if len(raw) > MAX_RAW_BYTES:
        raw = _frame("raw", {**both, "raw": {}, "truncated": True})
    compressed = {name: value for name, value in record.items() if name not in _RAW}
    return raw.decode(), _frame("compressed", compressed).decode()


def _frame(form: str, observation: Mapping[str, Any]) -> bytes:
    """Pages of both generations take it: older ones read `type`, newer ones `event_type`."""
    session = observation["sessionId"]
    return msgspec.json.encode(
        {
            "type": f"{form}_observation",
            "event_type": "observation",
            "sessionId": session,
            "data": {"type": form, "observation": observation, "sessionId": session},
        }
    )


def _only(record: Mapping[str, Any], names: tuple[str, ...]) -> Record:
    return {name: record[name] for name in names if name in record}
