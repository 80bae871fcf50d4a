"""How the server is: samples, findings, readiness, and whether there is room for more."""
