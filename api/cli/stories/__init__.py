"""What the demo fleet said: one script a project, in the notation of `api/cli/fleet.py`."""
