"""Made by `make types` from the OpenAPI document of the server."""
