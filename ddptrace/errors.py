"""The exceptions a user may meet: each message is one line that says what to do."""

from __future__ import annotations


class DdptraceError(Exception):
    """Something the user can mend; `main()` prints it and exits with 2."""


class UsageError(DdptraceError):
    """An option or argument that cannot be used as it stands."""


class RunError(DdptraceError):
    """A set of files that cannot be read as one run."""


class TraceFileError(DdptraceError):
    """One file that holds no usable recording of a rank."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.path = path
        self.what = what

    def __reduce__(self) -> tuple[type[TraceFileError], tuple[str, str]]:
        """Rebuild from both arguments, since the error crosses process borders."""
        return type(self), (self.path, self.what)


class ForeignFileError(TraceFileError):
    """A readable file of another kind, such as a configuration or a TensorFlow trace."""


class OwnReportError(ForeignFileError):
    """A report or a merged file that ddptrace itself wrote beside the traces."""


class SavedReportError(OwnReportError):
    """A report of ddptrace as JSON: `compare` takes it in the place of its traces."""


class OutputError(DdptraceError):
    """A file that cannot be written."""


class HistoryError(DdptraceError):
    """A database of runs that cannot be read or written."""
