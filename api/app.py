"""Composition root of the API process: settings in, the applications of its doors out."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware

from api.access.admission import guarded
from api.access.binding import check_binding
from api.access.gate import Gate
from api.access.keyring import Keyring
from api.access.rates import RateLimits
from api.access.registry import Registry
from api.agents import spooled
from api.dialects.agent_memory import own as agent_memory_own
from api.dialects.agent_memory import queued
from api.dialects.agent_memory.app import create_app as create_agent_memory
from api.dialects.agentd import own as agentd_own
from api.dialects.agentd.app import create_app as create_agentd
from api.dialects.agentmemory import own as agentmemory_own
from api.dialects.agentmemory.app import create_app as create_agentmemory
from api.dialects.homes import Homes
from api.dialects.memex import own as memex_own
from api.dialects.memex.app import create_app as create_memex
from api.dialects.memex.mcp_app import create_app as create_memex_mcp
from api.dialects.profiles import PROFILES
from api.http.endpoint import open_paths, routes
from api.http.errors import HANDLERS
from api.http.listeners import Doors
from api.http.listening import LOOPBACK
from api.monitoring import ops
from api.native import writes
from api.native.catalog import endpoints
from api.services import tool_door
from api.spooling import Spooling
from api.wiring import wire
from ingest.commands.decide import Caller
from ingest.commands.decision import writer
from ingest.errors import InvalidSetting
from ingest.log.spool import Spool
from ingest.platform.settings import Settings
from ingest.platform.tuning import tune_interpreter
from ingest.roles import ANY
from mcp_gateway.server import Gateway
from projections.condensing.llm.config import check as check_llm


def create_app(settings: Settings) -> Starlette:
    """The native API with MCP. Connections open when it starts and close, after the last write, when it stops."""
    return _native(settings, Gateway(PROFILES, settings.host, settings.mcp_profile))


def create_doors(settings: Settings) -> Doors:
    """Every door that the settings ask for, on one set of services; the native API's lifespan is that of all."""
    gateway = Gateway(PROFILES, settings.host, settings.mcp_profile)
    native = _native(settings, gateway)
    agentmemory = create_agentmemory(settings)
    by_port: dict[int, Starlette] = {}
    if "agentd" in settings.drop_in:
        by_port |= dict.fromkeys(settings.agentd_ports, create_agentd(settings))
    if "agent-memory" in settings.drop_in:
        by_port |= dict.fromkeys(settings.agent_memory_ports, create_agent_memory(settings))
    if "memex" in settings.drop_in:
        by_port |= dict.fromkeys(settings.memex_ports, create_memex(settings))
        by_port |= dict.fromkeys(settings.memex_mcp_ports, create_memex_mcp(settings, gateway))
    state = native.state
    state.homes = Homes()
    state.agentmemory, state.agentd = agentmemory_own.Own.of(settings), agentd_own.Own.of(settings)
    state.agent_memory, state.memex = agent_memory_own.Own(settings), memex_own.Own.of(settings)
    for app in (agentmemory, *by_port.values()):
        app.state = state  # one set of services, whichever door is used
    return Doors(native, agentmemory, by_port)


def _native(settings: Settings, gateway: Gateway) -> Starlette:
    if settings.redis_url is None:
        raise InvalidSetting("REDIS_URL is not set; `mnemolog up` starts an embedded server and sets it")
    check_llm(settings.llm, settings.llm_key or "", settings.llm_daily_tokens)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            wired = await wire(settings, stack)
            app.state.services, app.state.transfer, app.state.metrics = wired
            registry = Registry(wired.services.redis)
            keyring = Keyring(registry, settings.tenant, settings.secret, loopback=settings.host in LOOPBACK)
            await keyring.load()
            check_binding(settings, keys=not keyring.empty)
            app.state.keyring, app.state.rates = keyring, RateLimits(wired.services.redis)
            gateway.connect(lambda scope, agent: tool_door(scope, "mcp", agent))
            await stack.enter_async_context(gateway.running())
            spools = [] if settings.spool is None else [Spool(settings.spool, spooled.parse)]
            if "agent-memory" in settings.drop_in:
                spools.append(Spool(settings.agent_memory_spool, queued.spooled))
            if spools:
                caller = Caller(settings.tenant, agent_id=writer(settings.agent_id))
                await stack.enter_async_context(Spooling(spools, wired.services.commands, caller))
            tune_interpreter()
            yield

    described = endpoints(gateway.route)
    return Starlette(
        routes=[
            guarded(gateway.route, ANY),  # each of its calls is asked for
            *routes([one for one in described if one.path != gateway.route.path]),
        ],
        lifespan=lifespan,
        exception_handlers=HANDLERS,
        middleware=[
            Middleware(ops.Measure, "native"),
            Middleware(Gate, settings, open_paths=open_paths(described)),
            Middleware(writes.Shortcut),
        ],
    )
