"""What holds for all tests."""

from hypothesis import settings

# A busy machine is no fault of the code.
settings.register_profile("without deadlines", deadline=None)
settings.load_profile("without deadlines")
