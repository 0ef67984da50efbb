"""Statuses with which commands end."""

RUN_FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
