"""Where the result of a check goes beside the terminal: files for machines, or standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ddptrace.cli.terminal import stdout_destination, write
from ddptrace.errors import DdptraceError, OutputError, UsageError
from ddptrace.wording import one_line

if TYPE_CHECKING:
    from ddptrace.check.judge import OnInconclusive, Rules
    from ddptrace.check.result import CheckResult
    from ddptrace.outputs.terminal import Destination

_SUMMARY = "GITHUB_STEP_SUMMARY"


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files to write, each None or a name; "-" is standard output, which then holds only that."""

    json: str | None = None
    junit: str | None = None
    gitlab: str | None = None
    markdown: str | None = None
    github: bool = False

    def check(self, inputs: list[str]) -> None:
        """Raise UsageError for outputs that would take the place of each other or of an input."""
        named = {name: place for name, place in self._named() if place != "-"}
        on_stdout = [name for name, place in self._named() if place == "-"]
        on_stdout += ["--github"] if self.github else []
        if on_stdout[1:]:
            raise UsageError(
                f"{on_stdout[0]} and {on_stdout[1]}: only one can go to standard output"
            )
        taken = {Path(place).resolve(): place for place in inputs}
        for name, place in named.items():
            path = Path(place).resolve()
            if path in taken:
                raise UsageError(f"{name} {one_line(place)}: is {taken[path]}; give another name")
            taken[path] = f"the file of {name}, too"

    def _named(self) -> Iterator[tuple[str, str]]:
        for name in ("json", "junit", "gitlab", "markdown"):
            place = getattr(self, name)
            if place is not None:
                yield f"--{name}", place

    @property
    def asked(self) -> list[str]:
        """The options that ask for any."""
        return [*(name for name, _ in self._named()), *(["--github"] if self.github else [])]

    @property
    def takes_stdout(self) -> bool:
        """Whether standard output is for machines."""
        return self.github or any(place == "-" for _, place in self._named())

    @contextmanager
    def told_of_errors(
        self, rules: Rules, baselines: Sequence[str], runs: Sequence[str]
    ) -> Iterator[None]:
        """Write the outputs also of a check that an error ended; only the terminal lacks it."""
        try:
            yield
        except DdptraceError as error:
            from ddptrace.check.judge import not_checked

            result = not_checked(rules, str(error), baselines, runs)
            for write_one in self._for_machines(result, rules.inconclusive):
                _tried(write_one)
            raise

    def write(self, result: CheckResult, on_inconclusive: OnInconclusive) -> bool:
        """Write all outputs and the text; return false, once that is said, when one failed.

        Nothing that cannot be written hides how the check ended.
        """
        done = [_tried(write_one) for write_one in self._writers(result, on_inconclusive)]
        return all(done)

    def _writers(
        self, result: CheckResult, on_inconclusive: OnInconclusive
    ) -> Iterator[Callable[[], None]]:
        from ddptrace.outputs.check import render

        yield from self._for_machines(result, on_inconclusive)
        if not self.takes_stdout:
            yield lambda: write("-", render(result, stdout_destination()))
        elif self.github:  # whose log is read by people, too
            yield lambda: _to_stderr(render(result, _plain()))

    def _for_machines(
        self, result: CheckResult, on_inconclusive: OnInconclusive
    ) -> Iterator[Callable[[], None]]:
        from ddptrace.check.result import to_json
        from ddptrace.outputs import github, gitlab, junit, markdown

        contents: dict[str, Callable[[], str]] = {
            "--json": lambda: to_json(result),
            "--junit": lambda: junit.render(result, on_inconclusive),
            "--gitlab": lambda: gitlab.render(result, on_inconclusive),
            "--markdown": lambda: markdown.render(result),
        }
        for name, place in self._named():
            yield partial(_write_made, place, contents[name])
        if self.github:
            yield lambda: write("-", github.render(result, on_inconclusive))
            yield lambda: _append_summary(markdown.render(result))


def _write_made(place: str, made: Callable[[], str]) -> None:
    write_whole(place, made())


def write_whole(place: str, text: str) -> None:
    """Write a file whole or not at all, or to standard output for "-"; OutputError if that fails.

    What is no file, such as a pipe, is written as it is.
    """
    path = Path(os.path.realpath(place))
    if place == "-" or (path.exists() and not path.is_file()):
        write(place, text)
        return
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise OutputError(f"{one_line(place)}: cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            new.unlink()
    sys.stderr.write(f"wrote {one_line(place)}\n")


def _tried(write_one: Callable[[], None]) -> bool:
    try:
        write_one()
    except OutputError as error:
        sys.stderr.write(f"ddptrace: {error}\n")
        return False
    return True


def _append_summary(text: str) -> None:
    """Append to the page of the step that GitHub shows, where there is one."""
    place = os.environ.get(_SUMMARY)
    if not place:
        return
    try:
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise OutputError(f"${_SUMMARY}: cannot be written: {error.strerror}") from error


def _to_stderr(text: str) -> None:
    sys.stderr.write(text)


def _plain() -> Destination:
    from ddptrace.outputs.terminal import Destination

    return Destination()
