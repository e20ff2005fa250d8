"""A job with several bucket caps: what each measured, what was predicted, which one to take."""
