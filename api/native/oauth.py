"""Where clients that can ask for tokens learn of whom (RFC 9728). Served where the settings name an issuer."""

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from api.access.oauth.resource import Resource
from api.http.endpoint import Endpoint
from api.http.http import Json
from ingest.roles import ANY


class ResourceMetadata(Struct, frozen=True, kw_only=True):
    """Who issues tokens for this server, and which scopes to begin with."""

    resource: str
    authorization_servers: list[str]
    scopes_supported: list[str]
    bearer_methods_supported: list[str]
    resource_name: str


def endpoints(resource: Resource) -> list[Endpoint]:
    """The metadata of a protected resource, at each of its paths."""

    async def get_metadata(request: Request) -> Response:
        return Json(resource.metadata)

    summary = "Who issues access tokens for this server (RFC 9728)."
    return [
        Endpoint("GET", path, ANY, get_metadata, summary, answer=ResourceMetadata, open=True) for path in resource.paths
    ]
