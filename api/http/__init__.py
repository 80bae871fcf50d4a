"""HTTP: route declarations, bodies, errors, OpenAPI, listeners."""
