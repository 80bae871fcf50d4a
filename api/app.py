"""Composition root of the API process: settings in, the applications of its listeners out."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pkgutil import resolve_name

from starlette.applications import Starlette

from api.access.admission import RateLimits, guarded
from api.access.binding import check_binding, token_rules
from api.access.keys import Keyring, Registry
from api.api_processes import ApiProcess, wait_to_listen
from api.dialects.profiles import PROFILES
from api.dialects.registry import DIALECTS, listeners_of
from api.dialects.session_projects import SessionProjects
from api.http.endpoint import direct_routes, open_paths, routes
from api.http.gate import Application, Gate
from api.http.http import HANDLERS
from api.http.serving import Listeners, Serves
from api.monitoring.ops import ProcessFigures
from api.native.catalog import endpoints
from api.native.keys import metadata_endpoints
from api.services import tool_context
from api.spooling import Spooling
from api.viewer.room import OPEN_PATHS
from api.wiring import Preloaded, wire
from ingest.commands.decide import Caller, WriteCommand
from ingest.commands.spool import Spool
from ingest.nouns.command import writer
from ingest.platform.addresses import LOOPBACK
from ingest.platform.processes import tune_interpreter
from ingest.platform.settings import Settings
from ingest.roles import ANY
from mcp_gateway.room import Gateway
from projections.condensing.operations import check_model


def create_listeners(
    settings: Settings, api_process: ApiProcess | None = None, preloaded: Preloaded | None = None
) -> Listeners:
    """All applications that the settings enable, on one set of services.

    They share the lifespan of the native API: connections open when it starts and close, after the last write, when it
    stops.
    """
    gateway = Gateway(PROFILES, settings.mcp_profile)
    native = _native(settings, gateway, api_process, preloaded)
    native.state.homes = SessionProjects()
    on_main_port: list[tuple[Serves, Starlette]] = []
    by_port: dict[int, Starlette] = {}
    for dialect in DIALECTS.values():
        setattr(native.state, dialect.state_name, resolve_name(dialect.state)(settings))
        if dialect.main_port is not None:
            app: Starlette = resolve_name(dialect.main_port.create_app)(settings, gateway)
            on_main_port.append((dialect.main_port.serves, app))
    for listener in listeners_of(settings):
        app = resolve_name(listener.create_app)(settings, gateway)
        by_port |= dict.fromkeys(listener.ports(settings), app)
    for app in (*(app for _, app in on_main_port), *by_port.values()):
        app.state = native.state  # one set of services for all of them
    return Listeners(native, on_main_port, by_port)


def _native(
    settings: Settings, gateway: Gateway, api_process: ApiProcess | None, preloaded: Preloaded | None
) -> Starlette:
    settings.required_redis_url()
    check_model(settings)
    rules = token_rules(settings)
    resource = None
    if rules is not None:
        from api.access.oauth.rules import Resource

        resource = Resource(rules)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            wired = await wire(settings, stack, api_process, preloaded)
            app.state.services, app.state.transfer, app.state.metrics = wired
            registry = Registry(wired.services.redis)
            open_to_machine = settings.host in LOOPBACK and rules is None
            keyring = Keyring(registry, settings.tenant, settings.secret, loopback=open_to_machine)
            await keyring.load()
            check_binding(settings, keys=not keyring.empty)
            app.state.keyring, app.state.rates = keyring, RateLimits(wired.services.redis)
            app.state.tokens = None
            if rules is not None:
                from api.access.oauth.verifier import AccessTokens, IssuerKeys  # loads an HTTP client

                app.state.tokens = AccessTokens(rules, await stack.enter_async_context(IssuerKeys(rules)))
            gateway.connect(lambda scope, agent: tool_context(scope, "mcp", agent))
            await stack.enter_async_context(gateway.running())
            if api_process is None or api_process.is_first:
                spools = [] if settings.spool is None else [Spool(settings.spool, _parse_spooled)]
                named = (DIALECTS[name].hook_spool for name in settings.drop_in)
                spools += [resolve_name(name)(settings) for name in named if name]
                if spools:
                    caller = Caller(settings.tenant, agent_id=writer(settings.agent_id))
                    await stack.enter_async_context(Spooling(spools, wired.services.commands, caller))
            if api_process is not None:
                wired.metrics.processes = ProcessFigures(api_process, wired.metrics.text)
                await stack.enter_async_context(wired.metrics.processes)
                await wait_to_listen(api_process, wired.services.search_index)
            tune_interpreter()
            yield

    described = endpoints(gateway.route, [] if resource is None else metadata_endpoints(resource))
    own = [endpoint for endpoint in described if endpoint.path != gateway.route.path]
    gate = partial(
        Gate, name="native", settings=settings, open_paths=open_paths(described) | OPEN_PATHS, resource=resource,
        direct=direct_routes(own),
    )  # fmt: skip
    # MCP checks the roles for each call
    listed = [guarded(gateway.route, ANY), *routes(own)]
    return Application(gate, routes=listed, lifespan=lifespan, exception_handlers=HANDLERS)


def _parse_spooled(content: bytes, name: str) -> list[WriteCommand]:
    """Return the commands in a file of a hook. Only a file loads the room of the hooks."""
    from api.agents.room import parse

    return parse(content, name)
