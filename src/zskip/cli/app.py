"""The application, and how commands end: exit code 2 for what the user can mend, 130 for Ctrl-C."""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

import zskip
from zskip.errors import ZskipError, ZskipWarning

if TYPE_CHECKING:
    from pathlib import Path

app = typer.Typer(
    help="Make Spark read only the files a query needs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(f"zskip {zskip.__version__}")
        raise typer.Exit


def show_page(page: Path) -> None:
    """Open a page in the browser, where there is one."""
    import webbrowser

    if not webbrowser.open(page.as_uri()):
        _say("warning", "yellow", f"no browser opens here; open {page.as_uri()} in one")


def main() -> NoReturn:
    """Run a command: exit code 2 for what the user can mend, 130 for Ctrl-C."""
    warnings.showwarning = _warn
    try:
        code = app(standalone_mode=False)
    except ZskipError as error:
        _fail(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        text = error.format_message().rstrip(".")
        _fail(f"{text}; see --help", 2) if text else sys.exit(2)
    if code == 130:
        _fail("interrupted; a table in the middle of a commit is put right by the next zskip call on it", 130)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(text: str, code: int) -> NoReturn:
    sys.stdout.flush()
    _say("error", "red", text)
    sys.exit(code)


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, ZskipWarning) or os.environ.get("PYTHONWARNINGS"):
        _say("warning", "yellow", str(message))


def _say(kind: str, color: str, text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(Text.assemble((f"{kind}:", color), " ", text))
