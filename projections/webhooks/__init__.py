"""Webhooks: subscriptions to the log, and their delivery."""
