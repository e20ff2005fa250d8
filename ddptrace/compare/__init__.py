"""Two runs side by side: what the step's difference is made of, and what changed between them."""
