"""Whether a run became slower than its baseline: limits, statistics, and which part grew."""
