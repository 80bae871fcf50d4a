"""Who gets in at a dialect's door: whoever gets in at ours, with refusals in the dialect's own words."""

import re
from collections.abc import Collection

from starlette.middleware import Middleware
from starlette.types import ASGIApp

from api.access.gate import Gate
from ingest.platform.settings import Settings


def guard(
    settings: Settings,
    unauthorized: ASGIApp,
    forbidden: ASGIApp,
    *,
    origins: re.Pattern[str] | None = None,
    open_paths: Collection[str] = (),
    any_host: bool = False,
) -> Middleware:
    """The middleware that lets requests in; `origins` are the pages that the door trusts beside those of the settings.

    With `any_host` the names that a server on the loopback is called by are the door's own business.
    """
    return Middleware(
        Gate, settings, unauthorized, forbidden, origins=origins, open_paths=open_paths, any_host=any_host
    )
