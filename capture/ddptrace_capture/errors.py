"""What a user of capture may meet; each is one line that says what to do."""


class CaptureError(Exception):
    """Something that the user can mend, in one line."""


class NsysError(CaptureError):
    """Nsight Systems is missing, or did not do what was asked of it."""
