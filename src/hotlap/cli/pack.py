"""`hotlap pack`: a folder of samples into a fast dataset, and verbs about it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hotlap.cli.common import NEGATIVE, Choice, console, json_option, print_json, quiet_option
from hotlap.core.errors import HotlapError, UsageError

if TYPE_CHECKING:
    from hotlap.data.formats.compare import Reading
    from hotlap.data.pack.run import State
    from hotlap.data.store import Store

PATH = click.Path(path_type=Path)
STORE = click.Path(exists=True, path_type=Path)


class Verbs(click.Group):
    """`pack SRC DST` packs; `pack info`, `verify` and `bench` look at what was packed."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Take anything that is no verb for a source."""
        if args and args[0] not in self.commands:
            args = ["into", *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Let options stand before the source too."""
        if args and args[0].startswith("-") and args[0] not in {"--help", "-h"}:
            args = ["into", *args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show both forms."""
        formatter.write_usage(ctx.command_path, "SRC DST [OPTIONS] | info|verify|bench DST")


@click.group(cls=Verbs)
def pack() -> None:
    """Turn samples into one fast, checked dataset.

    `hotlap pack SRC DST` packs images, tables, arrays, text or tokens into the store DST; formats
    and options: `hotlap pack into --help`. A source named like a verb: `./info`.
    """


def _resize(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> int | tuple[int, ...] | None:
    del ctx
    if value is None:
        return None
    try:
        sides = tuple(int(side) for side in value.lower().split("x"))
    except ValueError:
        sides = ()
    if len(sides) not in {1, 2} or min(sides) < 1:
        raise click.BadParameter(f"{value!r} is no size: give N or HEIGHTxWIDTH", param=param)
    return sides if len(sides) == 2 else sides[0]


@pack.command()
@click.argument("source", type=PATH, metavar="SRC")
@click.argument("target", type=PATH, metavar="DST")
@click.option(
    "--profile",
    type=Choice(["auto", "jpeg", "jpeg256", "raw", "tokens", "records"]),
    default="auto",
    show_default=True,
    help="Images as they are, JPEGs of short side 256, decoded rows, tokens, or all fields as they "
    "are; auto takes what fits the source.",
)
@click.option("--resize", callback=_resize, metavar="N|HxW", help="Short side, or both.")
@click.option("--shuffle", is_flag=True, help="Store in random order.")
@click.option("--seed", default=0, show_default=True, help="Of that order.")
@click.option("--shards", type=int, help="Files; by default one for 1,000 samples.")
@click.option("--workers", type=click.IntRange(1), help="Processes; by default one a core.")
@click.option("--quality", default=92, show_default=True, help="Of JPEGs encoded anew.")
@click.option(
    "--decoder",
    type=Choice(["auto", "simplejpeg", "opencv", "pil"]),
    default="auto",
    show_default=True,
    help="What decodes JPEGs.",
)
@click.option("--exif", is_flag=True, help="Turn images as their EXIF says.")
@click.option("--lenient", is_flag=True, help="Keep files that can be decoded despite damage.")
@click.option(
    "--on-error",
    type=Choice(["raise", "skip", "replace"]),
    default="raise",
    show_default=True,
    help="What to do with a sample that cannot be read.",
)
@click.option(
    "--max-error-rate", default=0.01, show_default=True, help="Largest share of bad samples."
)
@click.option("--bad", hidden=True, help="Former name of --on-error.")
@click.option("--bad-limit", type=float, hidden=True, help="Former name of --max-error-rate.")
@click.option(
    "--labels",
    type=PATH,
    metavar="FILE",
    help="CSV, TSV or JSON lines with images and labels.",
)
@click.option("--label-column", metavar="FIELD", help="The field that is the label, or none.")
@click.option("--split", metavar="NAME", help="Of a source that holds several, such as train.")
@click.option("--drop", multiple=True, metavar="FIELD", help="A field to leave out (repeatable).")
@click.option("--constant-label", is_flag=True, help="It is right that all labels are the same.")
@click.option(
    "--dtype",
    type=Choice(["uint16", "uint32"]),
    default="uint16",
    show_default=True,
    help="Of tokens in .bin files.",
)
@click.option("--end", type=int, metavar="TOKEN", help="The token that ends a document.")
@quiet_option
def into(
    source: Path, target: Path, workers: int | None, dtype: str, end: int | None, lenient: bool,
    quiet: bool, labels: Path | None, **options: object,
) -> None:  # fmt: skip
    """Pack SRC into the store DST; after an interruption the same command goes on.

    SRC: a folder of images (a folder for each class, or with a table that names them), WebDataset
    .tar, .parquet, .arrow, Hugging Face save_to_disk, .csv, .jsonl, .txt, HDF5, LMDB, TFRecord,
    MDS, LitData, CIFAR and MNIST folders, .npy, .npz, .pt, or with --profile tokens .bin.
    """
    with _said():
        from hotlap.data.pack import Settings
        from hotlap.data.pack import pack as run
        from hotlap.data.pack.sources import outside, source_of

        outside(source, target)
        if labels is not None:
            options["labels"] = str(labels)
        settings = Settings(strict=not lenient, **_renamed(options))
        found = source_of(source, settings.profile, dtype, end, how=settings)
        with _resumable(target), _progress(quiet) as told:
            store = run(found, target, settings, workers=workers, progress=told)
        if not quiet:
            _summary(store, found.kind)
        for what in found.left_out:
            click.echo(f"  left out: {what}")
        if not quiet:
            click.echo(f"  to read it: {_reading(store)}")


def _renamed(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options, with the values of former names under their present ones."""
    for old, new in (("bad", "on_error"), ("bad_limit", "max_error_rate")):
        value = options.pop(old)
        if value is not None:
            options[new] = value
            names = [f"--{name.replace('_', '-')}" for name in (old, new)]
            click.echo(f"{names[0]} is called {names[1]} now", err=True)
    return options


@pack.command()
@click.argument("target", type=STORE, metavar="DST")
@json_option
@quiet_option
def info(target: Path, as_json: bool, quiet: bool) -> None:
    """Say what a store holds."""
    with _said():
        from hotlap.data.store import Store

        store = Store(target)
    if as_json:
        print_json(store.manifest.document())
        return
    _summary(store, store.manifest.settings.get("source", "samples"))
    for name, why in () if quiet else store.manifest.skipped[:20]:
        click.echo(f"  left out: {name}: {why}")


@pack.command()
@click.argument("target", type=STORE, metavar="DST")
@quiet_option
def verify(target: Path, quiet: bool) -> None:
    """Compare every checksum; exit code 1 when something is wrong."""
    with _said():
        from hotlap.data.store import Store

        store = Store(target)
        with _bytes_read(store, quiet) as told:
            wrong = store.verify(told)
    for line in wrong:
        click.echo(line)
    if wrong:
        raise click.exceptions.Exit(NEGATIVE)
    if not quiet:
        click.echo(f"{target}: every checksum agrees")


@pack.command()
@click.argument("target", type=STORE, metavar="DST")
@click.option(
    "--samples",
    default=512,
    show_default=True,
    type=click.IntRange(1),
    help="How many to compare with.",
)
@json_option
@quiet_option
def bench(target: Path, samples: int, as_json: bool, quiet: bool) -> None:
    """Read some of DST's samples from every usual format, by turns."""
    with _said():
        from hotlap.data.formats.compare import compare
        from hotlap.data.store import Store

        store = Store(target)
        rows = compare(store, samples)
    if as_json:
        print_json({"rows": [vars(row) for row in rows]})
        return
    _show_readings(rows, min(samples, len(store)), brief=quiet)


def _show_readings(rows: "list[Reading]", samples: int, *, brief: bool) -> None:
    from hotlap.reporting.tables import Row, columns, table

    lines = []
    for row in rows:
        times = ("", "") if row.note else (f"{row.cpu * 1e6:.1f}", f"{row.wall * 1e6:.1f}")
        lines.append(Row((row.name, *times), row.note))
    out = console()
    out.print(table(columns("format", "CPU us/sample", "wall us/sample"), lines, out.width))
    if not brief:
        out.print(
            f"{samples} samples' bytes as stored, not decoded, by turns, at random unless said "
            "otherwise, from RAM; what comes from the store is compared with its checksum"
        )


@contextmanager
def _said() -> Iterator[None]:
    """Turn the library's errors into hotlap's."""
    from hotlap.data.errors import DATA_ERRORS, PackError

    try:
        yield
    except DATA_ERRORS as error:
        kind = UsageError if isinstance(error, PackError) else HotlapError
        raise kind(str(error)) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise HotlapError(str(error)) from error


@contextmanager
def _resumable(target: Path) -> Iterator[None]:
    """Say at a Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(
            f"interrupted: finished shards stay in {target}.partial; the same command goes on",
            err=True,
        )
        raise


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[["State"], None] | None]:
    if quiet:
        yield None
        return
    if not (out := console(err=True)).is_terminal:
        from hotlap.reporting.live_screen import LiveScreen

        screen = LiveScreen(out, "hotlap pack")
        with screen.showing():
            yield lambda state: screen.now(f"{state.done:,} of {state.total:,} samples packed")
        return
    from rich import progress as parts

    columns = (
        parts.BarColumn(), parts.MofNCompleteColumn(), parts.TextColumn("{task.fields[rate]}"),
        parts.TimeRemainingColumn(), parts.TextColumn("{task.fields[bad]}"),
    )  # fmt: skip
    with parts.Progress(*columns, console=out) as bar:
        task = bar.add_task("", total=None, rate="", bad="", visible=False)

        def told(state: "State") -> None:
            elapsed = bar.tasks[0].elapsed or 1e-9
            rate = f"{(state.done - state.resumed) / elapsed:,.0f} samples/s"
            bad = f"{state.bad} bad" if state.bad else ""
            if state.done == state.resumed:  # an earlier start's samples say nothing of the pace
                bar.reset(task, total=state.total, completed=state.done, visible=True, bad=bad)
            else:
                bar.update(
                    task, total=state.total, completed=state.done, rate=rate, bad=bad, visible=True
                )

        yield told


@contextmanager
def _bytes_read(store: "Store", quiet: bool) -> Iterator[Callable[[int], None] | None]:
    if quiet:
        yield None
        return
    from rich import progress as parts

    columns = (
        parts.BarColumn(), parts.DownloadColumn(), parts.TransferSpeedColumn(),
        parts.TimeRemainingColumn(),
    )  # fmt: skip
    with parts.Progress(*columns, console=console(err=True), transient=True) as bar:
        task = bar.add_task("", total=sum(shard.bytes for shard in store.manifest.shards))
        yield lambda size: bar.advance(task, size)


def _summary(store: "Store", kind: str) -> None:
    manifest = store.manifest
    size = sum(shard.bytes for shard in (*manifest.shards, *manifest.extra))
    row = store.manifest.row
    shape = f", rows of {_dtype(row.dtype)} {' x '.join(map(str, row.shape))}" if row else ""
    shards = len(store.manifest.shards)
    classes = f", {len(store.classes)} classes" if store.classes else ""
    left = f", {len(store.manifest.skipped)} left out or replaced" if store.manifest.skipped else ""
    click.echo(
        f"{store.path}: {len(store):,} samples ({kind}), profile {store.profile}, "
        f"{_size(size)} in {shards} shard{'s' * (shards != 1)}{shape}{classes}{left}"
    )
    if kept := _kept(store):
        click.echo(f"  it holds {kept}")
    fields = [*store.fields, *(f"{name} ({kind})" for name, kind in store.columns.items())]
    if fields:
        note = "" if "label" in store.field_names else "; none of them is the label"
        click.echo(f"  fields: {', '.join(fields)}{note}")


KEPT = {
    "jpeg": "image files as they are, decoded whenever they are read",
    "jpeg256": "JPEGs of short side 256, decoded whenever they are read",
}
"""What the profiles of images hold."""


def _kept(store: "Store") -> str:
    """What a store of images holds, in words; `--resize` and `--exif` encode files anew."""
    settings, words = store.manifest.settings, KEPT.get(store.profile, "")
    anew = settings.get("resize") is not None or settings.get("exif")
    if words and anew:
        words = "JPEGs encoded anew where size or turn differ, decoded whenever they are read"
    return words


def _reading(store: "Store") -> str:
    """The lines that read a store, or the command that shows them."""
    name = json.dumps(str(store.path))
    if store.profile in KEPT:
        return "hotlap explain packed_dataset"
    data = f"TokenWindows({name}, 1024)" if store.profile == "tokens" else name
    names = "Loader, TokenWindows" if store.profile == "tokens" else "Loader"
    return f"from hotlap.data import {names}; loader = Loader({data}, batch_size=64, shuffle=True)"


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"


def _dtype(code: str) -> str:
    """`uint8` for `|u1`."""
    kinds = {"u": "uint", "i": "int", "f": "float", "b": "bool"}
    kind, size = code[-2:-1], code[-1:]
    return kinds.get(kind, kind) + ("" if kind == "b" else str(8 * int(size)))
