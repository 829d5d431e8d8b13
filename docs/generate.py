"""Pages made from the technique records, the command line and the records of races.

mkdocs calls `on_files` (a hook in mkdocs.yml): they are made at each build, so they cannot be
stale.
"""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from hotlap.cli.main import VERBS, Verbs, hotlap
from hotlap.core.registry import techniques
from hotlap.reporting.technique_page import Measured, index, page, pattern_page, patterns_page
from hotlap.tune.result import MEANINGS

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
SCHEMAS = ROOT / "src" / "hotlap" / "reporting" / "schemas"
PARTS = ("data", "engine", "optim", "kernels", "memory", "model", "parallel")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the techniques' pages into the navigation."""
    for entry in config.nav or []:
        if isinstance(entry, dict) and "Techniques" in entry:
            entry["Techniques"] += _by_group()
    return config


def _by_group() -> list[dict[str, list[str]]]:
    groups: dict[str, list[str]] = {}
    for name, record in techniques().items():
        groups.setdefault(str(record.group).capitalize(), []).append(f"techniques/{name}.md")
    return [{group: pages} for group, pages in groups.items()]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the table of verdicts where a page asks for it."""
    return markdown.replace("<!-- verdicts -->", verdicts())


def verdicts() -> str:
    """The words of a tune and what they mean, as a table."""
    rows = "".join(f"| {word} | {meaning} |\n" for word, meaning in MEANINGS.items())
    return f"| word | meaning |\n|---|---|\n{rows}"


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Name the theme's search dialog, for screen readers."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def pages() -> dict[str, str]:
    """Every generated page, and the JSON Schemas: path below docs, text."""
    records = list(techniques().values())
    measured = list(_measured())
    made = {
        f"techniques/{record.id}.md": page(
            record, [m for m in measured if m.technique == record.id]
        )
        for record in records
    }
    made["techniques/index.md"] = index(records)
    made["patterns.md"] = patterns_page(records)
    made |= {
        f"patterns/{pattern.id}.md": pattern_page(record, pattern)
        for record in records
        for pattern in record.patterns
    }
    made["reference.md"] = _reference()
    made |= {f"api/{part}.md": _api(f"hotlap.{part}") for part in PARTS}
    made["api/hotlap.md"] = _api("hotlap")
    made["gallery.md"] = _gallery(sorted(RESULTS.glob("*/gallery-*.json")))
    for path in sorted(SCHEMAS.glob("*.json")):
        made[f"schemas/{path.name}"] = path.read_text("utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    made["changelog.md"] = changes
    return made


def _measured() -> Iterator[Measured]:
    for path in sorted(RESULTS.glob("*/techniques-*.json")):
        record = json.loads(path.read_text("utf-8"))
        for row in record["rows"]:
            yield _race(row, record["summary"]["workload"], record, path)
    for path in sorted(RESULTS.glob("*/gpu.json")):
        record = json.loads(path.read_text("utf-8"))
        tunes = (row for part in record["rows"] if part["part"] == "tune" for row in part["rows"])
        for tune in tunes:
            for row in (tune["raw"] or {}).get("races", ()):
                yield _race(row, tune["name"], record, path)


def _race(row: dict[str, Any], workload: str, record: dict[str, Any], path: Path) -> Measured:
    return Measured(
        row["technique"],
        row["values"],
        workload,
        record["machine"],
        "-".join(path.parent.name.split("-")[:3]),
        row["ratio"],
        row["low"],
        row["high"],
        row["pairs"],
        row["outcome"],
    )


GALLERY = """# Gallery: public training repositories

`hotlap tune` with its default options, apart from the budget, on unmodified scripts of well-known
repositories, with synthetic data of the shapes that they ask for. Those where nothing was gained
are listed too, and so are those that were measured while other programs kept the cores busy:
there, *inconclusive* says that the time was too short, not that there is nothing to gain. `python
-m benchmarks.gallery CHECKOUT` measures one again from a local clone.

| repository | training | kept | speed | losses | other programs |
|---|---|---|---|---|---|
"""


def _gallery(records: list[Path]) -> str:
    """One row for each training, from its newest record; then how each was started."""
    newest = {path.stem: path for path in records}
    rows, commands = [], []
    for path in newest.values():
        record = json.loads(path.read_text("utf-8"))
        (row,), found = record["rows"], record["summary"]
        link = f"[{row['repository']}](https://github.com/{row['repository']})"
        rows.append(f"| {link} | {row['about']} | {_gained(found)} |")
        where = f"in `{row['folder']}` of" if row["folder"] != "." else "in"
        commands.append(
            f"- `{row['command']}`, {where} {row['repository']} at `{row['commit'][:10]}`; "
            f"`--budget {row['budget']}`, {record['machine']}, torch {record['torch']} "
            f"(record `{path.parent.name}/{path.stem}`)"
        )
    return "\n".join([GALLERY + "\n".join(rows), "", "## Commands", "", *commands, ""])


def _gained(found: dict[str, Any]) -> str:
    """What was kept, the ratio of the final race with its interval, the losses, the load."""
    if "error" in found:
        return f"not raced: {found['error'].splitlines()[0]} | - | - | -"
    kept = ", ".join(f"[{name}](techniques/{name}.md)" for name in found["kept"])
    open_ones = len(found["inconclusive"])
    nothing = f"nothing; {open_ones} inconclusive" if open_ones else "nothing to gain"
    speed = "-"
    if found["ratio"] is not None:
        ends = f"[{found['low']:.2f}, {found['high']:.2f}]" if found["high"] else "-"
        speed = f"{found['ratio']:.2f}x {ends}" + ("" if found["confirmed"] else ", not confirmed")
    parity = found["parity"]["reason"] if found["parity"] else "-"
    return f"{kept or nothing} | {speed} | {parity} | {found['other_cores']:.1f} cores"


def _api(package: str) -> str:
    """A page for mkdocstrings: what a package says of itself, then each public name."""
    module = import_module(package)
    public = [getattr(module, name) for name in sorted(module.__all__)]
    names = [f"{one.__module__}.{one.__qualname__}" for one in public]
    return "\n\n".join([f"# {package}", module.__doc__ or "", *(f"::: {name}" for name in names)])


def _reference() -> str:
    parts = ["# Reference of the command line\n"]
    context = click.Context(hotlap, info_name="hotlap")
    assert isinstance(hotlap, Verbs)
    for verb in VERBS:
        command = hotlap.get_command(context, verb)
        assert command is not None
        parts.append(f"## hotlap {verb}\n")
        parts.append(_help(command, click.Context(command, info_name=verb, parent=context)))
        if isinstance(command, click.Group):
            for name, sub in command.commands.items():
                parts.append(f"### hotlap {verb} {name}\n")
                inner = click.Context(command, info_name=verb, parent=context)
                parts.append(_help(sub, click.Context(sub, info_name=name, parent=inner)))
    return "\n".join(parts)


def _help(command: click.Command, context: click.Context) -> str:
    context.terminal_width = 80
    return f"```text\n{command.get_help(context)}\n```\n"
