"""The report that README shows is the one that the command prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_report_in_readme_is_what_the_command_prints():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.split("```\n$ ", 1)[1].split("```", 1)[0]
    command, _, shown = block.partition("\n")
    words = [sys.executable, "-m", *command.split()]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == shown
