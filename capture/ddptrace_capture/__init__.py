"""The place of the recorder, which is to come: torch and the standard library only."""
