"""The fixture `ddptrace_check`, for teams that hold their runs to limits in tests.

pytest loads this module in every one of its runs where ddptrace is installed, so that it imports
nothing more before a test asks for the fixture.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from ddptrace.check.figures import RunFigures
    from ddptrace.check.judge import Rules
    from ddptrace.check.result import CheckResult
    from ddptrace.errors import UsageError
    from ddptrace.model import Run
    from ddptrace.report import Report

    Given: TypeAlias = str | PathLike[str] | Run | Report

_FOLDER = "ddptrace_baselines"
_MOST_LETTERS = 100
_SAVED = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, which tell where baselines are and whether to save them anew."""
    group = parser.getgroup("ddptrace", "step times held to limits (ddptrace)")
    group.addoption(
        "--ddptrace-baseline",
        metavar="DIR",
        help=f"Where ddptrace_check keeps the baselines of tests (default: {_FOLDER}).",
    )
    group.addoption(
        "--ddptrace-update-baselines",
        action="store_true",
        help="Save what ddptrace_check is given as new baselines, and check nothing.",
    )
    parser.addini("ddptrace_baseline", "The default of --ddptrace-baseline.", default=_FOLDER)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say which baselines were saved."""
    saved = config.stash.get(_SAVED, [])
    if saved:
        terminalreporter.section("ddptrace baselines saved")
        for path in saved:
            terminalreporter.line(path)


@pytest.fixture
def ddptrace_check(request: pytest.FixtureRequest) -> Checker:
    """Return a function that fails the test when a run became slower than its baseline."""
    return Checker(request.config, request.node.nodeid)


class Checker:
    """Checks the runs of one test; each call without a baseline has a file of its own."""

    def __init__(self, config: pytest.Config, test: str) -> None:
        self._config = config
        self._names = _names(test)

    def __call__(  # noqa: PLR0913  # the options of the command
        self,
        run: Given | Sequence[Given],
        baseline: Given | Sequence[Given] | None = None,
        *,
        fail_on: str | Sequence[str] = (),
        allow: str | Sequence[str] = (),
        inconclusive: str = "error",
        history: str | PathLike[str] | None = None,
        window: int | None = None,
        branch: str | None = None,
        tags: str | Sequence[str] = (),
    ) -> CheckResult | None:
        """Hold a run to limits and return the result; the test fails with the command's text.

        Runs are folders, traces, saved reports, CSV files of step times, or what `load_run` or
        `analyze` returned; several are runs of one job. Without `baseline` and `history` it is the
        file that --ddptrace-update-baselines saves for this test. None where one was saved.
        Of `fail_on`, `allow` and `tags` a text alone is one of them.
        """
        from ddptrace.cli.check import rules_of
        from ddptrace.errors import DdptraceError

        __tracebackhide__ = True
        try:
            rules = rules_of(
                _texts(fail_on=fail_on), _texts(allow=allow), _text_of(inconclusive=inconclusive)
            )
            if history is None:
                _refuse("given without a history", window=window, branch=branch, tags=tags)
                result = self._against_baseline(run, baseline, rules)
            else:
                _refuse("given with a history", baseline=baseline)
                found = _Past(Path(history), _window(window), branch, tuple(_texts(tags=tags)))
                result = _against_history(run, found, rules)
        except DdptraceError as error:
            pytest.fail(f"ddptrace: {error}", pytrace=False)
        if result is not None and result.exit_code:
            pytest.fail(_text(result), pytrace=False)
        return result

    def _against_baseline(
        self, run: Given | Sequence[Given], baseline: Given | Sequence[Given] | None, rules: Rules
    ) -> CheckResult | None:
        """Return how a run stands against a baseline, or save it as one."""
        from ddptrace.check.judge import check

        held_against = self._own_file() if baseline is None else baseline
        if self._config.getoption("ddptrace_update_baselines"):
            self._save(_figures(run), held_against)
            return None
        if isinstance(held_against, (str, PathLike)) and not Path(held_against).exists():
            raise _usage(
                f"{Path(held_against)}: no such baseline; --ddptrace-update-baselines saves it"
            )
        return check(_figures(held_against), _figures(run), rules)

    def _own_file(self) -> Path:
        """Return the file of the next call without a baseline."""
        told = self._config.getoption("ddptrace_baseline") or self._config.getini(
            "ddptrace_baseline"
        )
        return self._config.rootpath / str(told) / next(self._names)

    def _save(self, runs: list[RunFigures], place: Given | Sequence[Given]) -> None:
        from ddptrace.check.baseline import Baseline, save

        if not isinstance(place, (str, PathLike)) or Path(place).is_dir():
            raise _usage("--ddptrace-update-baselines: this baseline is no file that can be saved")
        if not all(run.is_usable for run in runs):
            raise _usage(f"{Path(place)}: is not saved, since the run has no usable step")
        path = Path(place)
        path.parent.mkdir(parents=True, exist_ok=True)
        save(Baseline(runs), path)
        self._config.stash.setdefault(_SAVED, []).append(str(path))


@dataclass(frozen=True, slots=True)
class _Past:
    """Which runs of a history count."""

    path: Path
    window: int | None
    branch: str | None
    tags: tuple[str, ...]


def _against_history(run: Given | Sequence[Given], past: _Past, rules: Rules) -> CheckResult:
    from ddptrace.history.runs import Choice
    from ddptrace.history.series import WINDOW, check_history

    choice = Choice(past.branch, past.tags)
    return check_history(past.path, _figures(run), rules, choice, past.window or WINDOW)


def _figures(given: Given | Sequence[Given]) -> list[RunFigures]:
    """Return the figures of one run or of several, read where a place is given."""
    from ddptrace.check.measured import figures_of
    from ddptrace.cli.check_inputs import Reading, figures_at
    from ddptrace.model import Run
    from ddptrace.report import Report

    if isinstance(given, (Run, Report)):
        return [figures_of(given)]
    if isinstance(given, (str, PathLike)):
        return figures_at(str(Path(given)), Reading())
    if not isinstance(given, Iterable):
        raise _usage(f"{given!r:.60} is no run: give a folder, a file, or what load_run returned")
    return [figures for one in given for figures in _figures(one)]


def _text(result: CheckResult) -> str:
    """Return what the command prints."""
    from ddptrace.outputs.check import render
    from ddptrace.outputs.terminal import Destination

    return render(result, Destination())


def _refuse(why: str, **given: object) -> None:
    """Raise UsageError for arguments that mean nothing there."""
    for name, value in given.items():
        if value is not None and not (isinstance(value, (list, tuple)) and not value):
            raise _usage(f"{name}: is {why}, where it means nothing")


def _texts(**given: object) -> list[str]:
    """Return texts, of which one may stand alone; UsageError for anything else."""
    ((name, value),) = given.items()
    if isinstance(value, str):
        return [value]
    found = [*value] if isinstance(value, Iterable) else [value]
    texts = [one for one in found if isinstance(one, str)]
    if len(texts) == len(found):
        return texts
    raise _usage(f"{name} {value!r:.60}: give a text, or a list of them")


def _text_of(**given: object) -> str:
    """Return a text; UsageError for anything else."""
    ((name, value),) = given.items()
    if isinstance(value, str):
        return value
    raise _usage(f"{name} {value!r:.60}: give a text")


def _window(value: object) -> int | None:
    """Return how many runs of a history count; UsageError for what is no number of runs."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    raise _usage(f"window {value!r:.60}: give how many runs of the history count, 1 or more")


def _usage(message: str) -> UsageError:
    from ddptrace.errors import UsageError

    return UsageError(message)


def _names(test: str) -> Iterator[str]:
    """Yield a file name for each call in a test: its node's name, as far as files can have it."""
    plain = test.replace("/", ".").replace("::", ".")
    safe = re.sub(r"[^0-9A-Za-z_.-]+", "-", plain)[:_MOST_LETTERS]
    if safe != plain:  # which another test's might be, too
        safe += f"-{hashlib.sha256(test.encode()).hexdigest()[:8]}"
    yield f"{safe}.json"
    yield from (f"{safe}.{number}.json" for number in count(2))
