"""The command line: each command parses, calls the library, prints and exits."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, NoReturn

import typer

from ddptrace import __version__
from ddptrace.cli.capture import PassOn, capture, doctor
from ddptrace.cli.check import check
from ddptrace.cli.compare import compare
from ddptrace.cli.explain import explain
from ddptrace.cli.export import export
from ddptrace.cli.history import commands as history
from ddptrace.cli.merge import merge
from ddptrace.cli.report import report
from ddptrace.cli.simulate import simulate
from ddptrace.cli.sweep import INTERRUPTED, sweep
from ddptrace.cli.whatif import whatif
from ddptrace.errors import DdptraceError

# What a parser raises for words that make no sense; typer gives it no public name.
_UsageError: Any = typer.BadParameter.__base__

app = typer.Typer(
    name="ddptrace",
    help="Find out where the step of a PyTorch DDP job goes, from the traces of all its ranks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich's help costs more than all the rest of `--help`
    add_completion=False,
)
app.command("capture", cls=PassOn)(capture)
app.command("report")(report)
app.command("explain")(explain)
app.command("compare")(compare)
app.command("check")(check)
app.command("whatif")(whatif)
app.command("simulate")(simulate)
app.command("sweep", cls=PassOn)(sweep)
app.command("export")(export)
app.command("merge")(merge)
app.add_typer(history, name="history")
app.command("doctor", cls=PassOn)(doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ddptrace {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version)
    ] = False,
) -> None:
    """Find out where the step of a PyTorch DDP job goes, from the traces of all its ranks."""


def main() -> None:
    """Run the command line; what the user can mend is one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name may hold what no terminal shows
    # Nothing here multiplies matrices, and BLAS threads spin for a tenth of a second at start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        code = app(prog_name="ddptrace", standalone_mode=False)
    except DdptraceError as error:
        _end(" ".join(str(error).splitlines()))
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            sys.exit(2)
        _end(_usage(error))
    except typer.Abort:  # what typer makes of a KeyboardInterrupt
        sys.exit(INTERRUPTED)
    sys.exit(code)


def _end(message: str) -> NoReturn:
    sys.stderr.write(f"ddptrace: {message}\n")
    sys.exit(2)


def _usage(error: Any) -> str:  # noqa: ANN401  # typer's own class has no public name
    message = " ".join(error.format_message().split()).rstrip(".")
    command = error.ctx.command_path if error.ctx else "ddptrace"
    return f"{message[:1].lower()}{message[1:]}; see {command} --help"
