"""The end of the page: what is known of the run, and what the words mean."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from html import escape
from typing import Any

from ddptrace.metrics.settings import DdpSettings, Settings
from ddptrace.outputs.html.glossary import GLOSSARY
from ddptrace.outputs.recording import sentences
from ddptrace.report import Report, RunFacts
from ddptrace.wording import capital, of_ranks, one_line

_LONGEST = 2_000
_MOST_FACTS = 60


def rank_count(run: RunFacts) -> str:
    """Return how many ranks of how many are here."""
    here = len(run.ranks)
    if run.world_size is None:
        return f"{here} rank{'' if here == 1 else 's'}, world size unknown"
    return f"{here} of {run.world_size} ranks"


def facts(report: Report) -> Iterator[str]:
    """Yield what is known of a run and of how it was recorded; `report` has no secrets."""
    yield _definitions(_facts(report.run))
    yield from (f'<p class="quiet">{escape(capital(line))}.</p>' for line in sentences(report))


def _definitions(found: Mapping[str, str]) -> str:
    items = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(_short(value))}</dd>"
        for name, value in list(found.items())[:_MOST_FACTS]
        if value
    )
    return f'<dl class="facts">{items}</dl>'


def _facts(run: RunFacts) -> dict[str, str]:
    sources = sorted(set(run.sources.values()))
    names = {"kineto": "torch.profiler", "nsys": "Nsight Systems"}
    found = {
        "recorded": rank_count(run),
        "ranks": of_ranks(run.ranks),
        "on": run.device or "unknown GPU",
        "backend": run.backend or "",
        "recorded with": " and ".join(names.get(source, source) for source in sources),
        "work of": "the host (a CPU run)" if run.measured == "host" else "the GPU",
        "times count from": "" if run.origin_ns is None else f"{run.origin_ns} ns of Unix time",
    }
    versions = {f"version of {name}": word for name, word in run.versions.items()}
    return found | versions | ({} if run.settings is None else _settings(run.settings))


def _settings(told: Settings) -> dict[str, str]:
    found = {
        "command": shlex.join(told.command),
        "switches of the profiler": ", ".join(told.switches),
    }
    found |= {f"capture option {name}": _word(value) for name, value in told.options.items()}
    for number, module in enumerate(told.ddp):
        of = f" of module {number}" if told.ddp[1:] else ""
        found |= {f"DDP's {name}{of}": word for name, word in _ddp(module).items()}
    return found


def _ddp(module: DdpSettings) -> dict[str, str]:
    return {name: _word(value) for name, value in asdict(module).items() if value is not None}


def _word(value: Any) -> str:  # noqa: ANN401  # whatever a manifest may hold
    if isinstance(value, bool) or value is None:
        return {True: "on", False: "off", None: "not set"}[value]
    return str(value)


def _short(value: str) -> str:
    line = one_line(value)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def glossary() -> Iterator[str]:
    """Yield what the words of the page mean."""
    yield '<section><h2 id="glossary">What the words mean</h2><dl class="glossary">'
    for term in GLOSSARY:
        name = f" <code>{escape(term.metric)}</code>" if term.metric else ""
        yield f"<dt>{escape(term.word)}{name}</dt><dd>{escape(term.meaning)}</dd>"
    yield "</dl></section>"
