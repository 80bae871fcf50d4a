"""The views of documents, which importing their queries registers."""

import projections.services as services  # noqa: F401
