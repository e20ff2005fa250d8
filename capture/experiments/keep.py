"""Make recordings fit to be kept in sample_traces: small, and without this machine's names.

    python capture/experiments/keep.py --into sample_traces DIR/late-compute DIR/one-bucket

Arrows between a call and its kernel (flow events) are left out, since every operation carries its
correlation, too; files are compressed again; hosts and folders are replaced in the manifest.
"""

import argparse
import gzip
import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

FLOW = re.compile(
    rb'\n  \{\n    "ph": "[sf]", "id": [^\n]*\n    "cat": "(?:ac2g|fwdbwd)"[^\n]*\n  \},'
)
HOST = re.compile(rb'("host(?:_name)?": )"[^"]*"')
OF_CHECKOUT = re.compile(r"capture/(?:examples|experiments)/.*")
SAME_HOST = rb'\1"host"'  # all ranks of these recordings are of one


def main(words: Sequence[str] | None = None) -> int:
    """Copy each recording, and print the size of its largest rank."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("recordings", type=Path, nargs="+")
    options = parser.parse_args(words)
    for recording in options.recordings:
        target = options.into / recording.name
        keep(recording, target)
        sizes = [path.stat().st_size for path in target.glob("rank0.*")]
        sys.stdout.write(f"{target}: {sum(sizes) / 1e6:.2f} MB of rank 0\n")
    return 0


def keep(recording: Path, target: Path) -> None:
    """Copy one recording's folder."""
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(recording.iterdir()):
        if path.name.endswith(".json.gz"):
            text = HOST.sub(SAME_HOST, FLOW.sub(b"", gzip.decompress(path.read_bytes())))
            (target / path.name).write_bytes(gzip.compress(text, 9, mtime=0))
        elif path.name == "manifest.json":
            document = json.loads(HOST.sub(SAME_HOST, path.read_bytes()))
            document["command"] = [without_folder(word) for word in document["command"]]
            (target / path.name).write_text(json.dumps(document, indent=1) + "\n")
        elif path.suffix == ".sqlite":
            shutil.copyfile(path, target / path.name)


def without_folder(word: str) -> str:
    """Return a word of a command without the folder that a checkout or a Python lies in."""
    if found := OF_CHECKOUT.search(word):
        return found[0]
    return Path(word).name if word.startswith("/") else word


if __name__ == "__main__":
    sys.exit(main())
