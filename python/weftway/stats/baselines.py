"""Schedulers that others are measured against."""

REFERENCE = "min-rtt"
"""Scheduler to which differences and ratios refer, unless something else is named."""

CHANCE = "random"
"""Any path that may send, equally likely: what a learned scheduler has to beat."""

AGAINST = "min-rtt,random,round-robin,ecf,blest"
"""Schedulers that a policy is held against unless something else is named; the reference always takes part."""
