"""Monitoring for operators: probes and metrics."""
