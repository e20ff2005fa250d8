"""A `Report` in, a page out."""
