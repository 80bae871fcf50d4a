"""Infrastructure: processes, connections, files and settings. Nothing here is about memories."""
