"""A conformance kit for memories that agents reach over HTTP: docs/howto/run-the-conformance-kit.md."""
