"""Environments and training."""
