"""The folder of a recording: made new, or cleared of an earlier recording when that is asked."""

from __future__ import annotations

import shutil
from pathlib import Path

from ddptrace_capture import rank_record
from ddptrace_capture.errors import CaptureError

MANIFEST = "manifest.json"
_BY_THE_WAY = (MANIFEST, rank_record.FOLDER)
_OURS = ("rank*.pt.trace.json.gz", "rank*.sqlite", "ranks.sqlite", "*.nsys-rep", "*.qdstrm")


def prepare(output: str, *, force: bool) -> None:
    """Make the folder; CaptureError when it holds an earlier recording and `force` is not given.

    Other files are left alone.
    """
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        owner = rank_record.owner(output)
        if owner is not None:
            raise CaptureError(f"{output}: another capture (process {owner}) is writing there")
        earlier = _earlier(folder)
        # What a capture that recorded nothing has left is no recording.
        if any(path.name not in _BY_THE_WAY for path in earlier) and not force:
            raise CaptureError(
                f"{output}: holds a recording already ({earlier[0].name}); give another folder "
                "with -o, or --force to overwrite it"
            )
        for path in earlier:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        rank_record.make_folder(output)
    except OSError as error:
        raise CaptureError(f"{output}: cannot be written: {error.strerror}") from error


def _earlier(folder: Path) -> list[Path]:
    found = [path for pattern in _OURS for path in sorted(folder.glob(pattern))]
    more = [folder / name for name in _BY_THE_WAY]
    return found + [path for path in more if path.exists()]


def clear(output: str) -> None:
    """Remove what the ranks left for the launcher."""
    shutil.rmtree(rank_record.folder_of(output), ignore_errors=True)
