"""Routes of the native API."""
