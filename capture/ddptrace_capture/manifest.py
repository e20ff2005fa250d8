"""The manifest of a recording: what all ranks told, and how the job ended."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from ddptrace_capture import link, replicas
from ddptrace_capture.options import Options
from ddptrace_capture.output_folder import MANIFEST
from ddptrace_capture.rank_record import write_whole

KEY = "ddptrace_manifest"
VERSION = 1

_SECRETS = {
    "apikey", "auth", "authorization", "credential", "credentials", "key", "keys", "passphrase",
    "passwd", "password", "pat", "pwd", "secret", "secrets", "token", "tokens",
}  # fmt: skip
_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_IN_HEADER = re.compile(r"(?i)\b((?:proxy-)?authorization|cookie|x-[\w-]*(?:key|token)):.*")
_HIDDEN = "***"


def write(
    options: Options,
    command: Sequence[str],
    ended: tuple[int, int],
    records: Sequence[Mapping[str, Any]],
) -> None:
    """Write the manifest; `ended` is when the job began (Unix ns) and its exit code."""
    started_ns, exit_code = ended
    document = {
        KEY: VERSION,
        "world_size": max((record["world_size"] for record in records), default=None),
        "profiler": options.profiler,
        "command": without_secrets(command),
        "exit_code": exit_code,
        "started_ns": started_ns,
        "options": _told_options(options),
        "versions": next((record["versions"] for record in records), {}) | _own_version(),
        "replicas": replicas.compared(records) if options.check_replicas else None,
        "link": link.joined(records) if options.measure_link else None,
        "ranks": [_rank(record, Path(options.output), exit_code) for record in records],
    }
    write_whole(Path(options.output) / MANIFEST, document)


def without_secrets(command: Sequence[str]) -> list[str]:
    """Return a command without the values of options and variables that name a secret."""
    kept: list[str] = []
    hide_next = False
    for word in command:
        name, equals, _ = word.partition("=")
        is_secret = _names_a_secret(name) and (word.startswith("-") or bool(equals))
        if hide_next and not word.startswith("-"):
            kept.append(_HIDDEN)
        elif is_secret and equals:
            kept.append(f"{name}={_HIDDEN}")
        else:
            kept.append(_IN_HEADER.sub(rf"\1: {_HIDDEN}", _IN_ADDRESS.sub(_HIDDEN, word)))
        hide_next = is_secret and not equals
    return kept


def _names_a_secret(name: str) -> bool:
    return not _SECRETS.isdisjoint(re.split(r"[^a-z0-9]+", name.lower()))


def _own_version() -> dict[str, str]:
    try:
        return {"ddptrace": metadata.version("ddptrace")}
    except metadata.PackageNotFoundError:  # run from a checkout
        return {}


def _told_options(options: Options) -> dict[str, Any]:
    told = asdict(options)
    for private in ("output", "nsys", "nsys_each_rank", "keep_nsys_rep", "profiler"):
        del told[private]
    return told


def _rank(record: Mapping[str, Any], folder: Path, exit_code: int) -> dict[str, Any]:
    parts = [part for part in record["parts"] if (folder / part["file"]).is_file()]
    rank = record["rank"]["rank"]
    # A rank that was killed may have written a file and not told of it.
    found = {
        path.name for path in folder.glob(f"rank{rank}.*") if path.suffix in (".gz", ".sqlite")
    }
    told = {
        **record["rank"],
        "status": record["status"],
        "problem": problem(record, folder, exit_code),
        "steps_seen": record["steps_seen"],
        "files": sorted(found | {part["file"] for part in parts}),
        "unprofiled": record["unprofiled"],
        "parts": parts,
        "ddp": record["ddp"],
    }
    if not told["files"] and told["status"] == "recorded":
        told["status"] = "incomplete"
    return told


def problem(record: Mapping[str, Any], folder: Path, exit_code: int) -> str | None:
    """Return why a rank has no recording, or no whole one; None when it has."""
    if record["problem"] or record["status"] in ("not_chosen", "timed"):
        return record["problem"]  # type: ignore[no-any-return]
    if record["status"] == "incomplete":
        return (
            f"its process ended in or after step {record['steps_seen']} without a word "
            f"(killed, or out of memory?); the job's exit code was {exit_code}"
        )
    if not any((folder / part["file"]).is_file() for part in record["parts"]):
        return "its file was not written"
    return None
