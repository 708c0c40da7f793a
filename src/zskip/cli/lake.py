"""Commands on many tables at once."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import zskip
from zskip.cli.app import app, show_page
from zskip.cli.options import AsJson, takes_options_of
from zskip.cli.remote import REMOTE
from zskip.cli.tables import can_open_without_spark, show, start_session

Tables = Annotated[
    list[str], typer.Argument(metavar="TABLES...", help='Directories, globs, or names such as "sales.*".')
]
Exclude = Annotated[
    list[str] | None, typer.Option(metavar="PATTERN", help="Names or paths to leave out; may be repeated.")
]

lake_app = typer.Typer(
    help="Many tables at once: survey them, maintain them. Example: zskip lake survey /lake", no_args_is_help=True
)
app.add_typer(lake_app, name="lake")


def _open(tables: list[str], exclude: list[str] | None, *, spark: bool = False) -> zskip.Lake:
    needs_spark = (
        spark or REMOTE.get() or not all(_is_path(table) and can_open_without_spark(table) for table in tables)
    )
    return zskip.lake(start_session() if needs_spark else None, *tables, exclude=exclude or ())


def _is_path(table: str) -> bool:
    from pathlib import Path

    return "/" in table or table in (".", "..") or Path(table).is_dir()


@lake_app.command()
def survey(tables: Tables, exclude: Exclude = None, as_json: AsJson = False) -> None:
    """Say of each table what queries read, which action suits it best, and when that pays; write nothing.

    Example: zskip lake survey /lake --exclude "*/tmp/*"
    """
    show(_open(tables, exclude).survey(), as_json)


@lake_app.command()
@takes_options_of(zskip.Lake.maintain)
def maintain(tables: Tables, *, exclude: Exclude = None, as_json: AsJson = False, **options: Any) -> None:
    """Rewrite what saves most for each byte written, whichever table it belongs to.

    It exits with 1 if a table failed.

    Example: zskip lake maintain "sales.*" --budget 1TB --seconds 7200
    """
    done = _open(tables, exclude, spark=not options["dry_run"]).maintain(**options)
    show(done, as_json)
    raise typer.Exit(1 if done.failed else 0)


@lake_app.command()
def report(
    tables: Tables,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="File to write; by default lake-report.html.")
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Show the report in the browser.")] = False,
    exclude: Exclude = None,
    as_json: AsJson = False,
) -> None:
    """Write the survey as one HTML page, with a page beside it for each of the most read tables.

    Example: zskip lake report /lake -o lake.html --open
    """
    from zskip.cli.show import print_json

    page = _open(tables, exclude).report(output)
    print_json({"report": str(page)}) if as_json else print(page)
    if open_it:
        show_page(page)
