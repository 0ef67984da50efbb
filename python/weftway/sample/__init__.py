"""Scenarios drawn at random."""
