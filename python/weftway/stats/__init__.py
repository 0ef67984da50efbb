"""Estimates with their intervals, and pairs of schedulers on the same instances."""
