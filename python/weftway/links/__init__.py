"""Links: measured, emulated, and written as scenarios."""
