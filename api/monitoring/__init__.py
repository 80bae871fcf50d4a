"""What an operator watches: probes, metrics."""
