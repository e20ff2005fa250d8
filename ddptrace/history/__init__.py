"""Runs over time in one SQLite database: what is stored, found again, and drifts."""
