"""Doors for the clients of other memory systems: routes and shapes of theirs on the services of ours."""
