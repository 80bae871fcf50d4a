"""The viewer: a page over the native API, and what serves it."""
