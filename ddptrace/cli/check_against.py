"""What `check` holds runs against: baselines, or the last comparable runs of a history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ddptrace.cli.check_inputs import Reading, baseline_figures
from ddptrace.errors import UsageError

if TYPE_CHECKING:
    from ddptrace.check.figures import RunFigures  # numpy behind it would slow `--help` down
    from ddptrace.check.judge import Rules
    from ddptrace.check.result import CheckResult

    Judge: TypeAlias = Callable[[list[RunFigures], Rules], CheckResult]


@dataclass(frozen=True, slots=True)
class Against:
    """What is given to hold runs against: at most one of `baselines` and `history`."""

    baselines: list[str]
    history: Path | None
    window: int | None
    branch: str | None
    tags: tuple[str, ...]

    @property
    def is_given(self) -> bool:
        """Whether there is anything to hold runs against."""
        return bool(self.baselines) or self.history is not None

    @property
    def files(self) -> list[str]:
        """The files that no output may take the place of."""
        return [*self.baselines, *([] if self.history is None else [str(self.history)])]

    def check(self) -> None:
        """Raise UsageError for options that have no meaning together."""
        if self.history is not None and self.baselines:
            raise UsageError("--history and --baseline: give one of them")
        if self.history is None:
            given = {"--window": self.window, "--branch": self.branch, "--tag": self.tags}
            for name, value in given.items():
                if value:
                    raise UsageError(f"{name}: is about the runs of --history, which is not given")

    def opened(self, reading: Reading) -> Judge:
        """Return what judges runs, once what they are held against is there and can be read."""
        if self.history is None:
            return partial(_by_baseline, baseline_figures(self.baselines, reading))
        from ddptrace.history.store import reading as history_of

        with history_of(self.history):
            return partial(self._by_history, self.history)

    def _by_history(self, path: Path, current: list[RunFigures], rules: Rules) -> CheckResult:
        from ddptrace.history.runs import Choice
        from ddptrace.history.series import WINDOW, check_history

        choice = Choice(self.branch, self.tags)
        return check_history(path, current, rules, choice, self.window or WINDOW)


def _by_baseline(
    baseline: list[RunFigures], current: list[RunFigures], rules: Rules
) -> CheckResult:
    from ddptrace.check.judge import check

    return check(baseline, current, rules)
