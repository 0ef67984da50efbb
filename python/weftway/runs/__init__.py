"""Runs: which jobs are wanted, by which backend, and the rows that are kept."""
