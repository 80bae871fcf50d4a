"""The compiled module, and what names it: see `module`."""
