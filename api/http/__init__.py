"""HTTP itself: declarations of routes, bodies, errors, OpenAPI, listeners."""
