"""Which ranks of a run are here, which are missing, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ddptrace.manifest import Manifest, RankFacts
from ddptrace.model import Run, Warn
from ddptrace.sources.manifest import Told
from ddptrace.wording import counted, explained, listed, one_line, ranges

_LONGEST_REASON = 200


def missing_reasons(told: Told, missing: Iterable[int]) -> dict[int, str]:
    """Return why ranks have no recording, for those of which the manifest tells it."""
    if told.manifest is None:
        return {}
    reasons = {rank: _reason(told, told.manifest, rank) for rank in missing}
    return {rank: reason[:_LONGEST_REASON] for rank, reason in reasons.items() if reason}


def _reason(told: Told, manifest: Manifest, rank: int) -> str | None:
    facts = manifest.of_rank(rank)
    if facts is None:
        return None
    if facts.status == "not_chosen":
        return f"not recorded, since capture was told {_choice(manifest)}"
    return facts.problem or _not_here(told, facts)


def _choice(manifest: Manifest) -> str:
    chosen = manifest.options.get("ranks")
    return f"--ranks {chosen}" if isinstance(chosen, (str, int)) else "to leave it out"


def _not_here(told: Told, facts: RankFacts) -> str | None:
    files = [path for path, rank in told.rank_of.items() if rank == facts.rank]
    if not files or any(path.exists() for path in files):
        return None
    names = listed({one_line(path.name) for path in files})
    return f"{names} {'is' if len(files) == 1 else 'are'} not here"


def about_ranks(run: Run) -> list[Warn]:
    """Return warnings about ranks whose figures are not whole, and about those not here."""
    warnings = [
        Warn(
            "partial_rank",
            f"{trace.path}: {trace.partial}; rank {trace.rank} is PARTIAL: its figures are lower "
            "bounds and it counts in no total",
            trace.rank,
        )
        for trace in run.figures
        if trace.partial
    ]
    warnings += _incomplete(run)
    if run.world_size is None:
        files = len({trace.path for trace in run.traces})
        said = f"{counted(files, 'file')}, world size unknown"
        warnings.append(Warn("world_size_unknown", said))
    if run.missing_ranks:
        missing = explained(run.missing_ranks, run.missing_reasons)
        here = f"{len(run.ranks)} of {run.world_size or 'the'} ranks are here"
        warnings.append(Warn("missing_ranks", f"{here}; missing: {missing}"))
    return warnings


def _incomplete(run: Run) -> list[Warn]:
    """Return what the recorder tells of ranks that are here but were not recorded whole."""
    here: Collection[int] = run.ranks
    by_problem: dict[str, list[int]] = {}
    for facts in run.manifest.ranks if run.manifest else ():
        if facts.rank in here and facts.problem:
            by_problem.setdefault(facts.problem, []).append(facts.rank)
    return [
        Warn("incomplete_recording", f"rank {ranges(ranks)}: {problem[:_LONGEST_REASON]}")
        for problem, ranks in by_problem.items()
    ]
