"""What checks and rebuilds: rebuilds, reconciling, manifests, receipts, dead letters, backup."""
