"""The landing page, the tutorial and the techniques' titles in other languages.

`translations/LANGUAGE/` holds the prose, `translations/LANGUAGE.toml` the titles. Code and output
are those of the English page: `<!-- block N -->` stands for its Nth fenced block, so that a figure
is never written down twice.
"""

import re
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from hotlap.core.registry import techniques
from hotlap.core.technique import Technique

DOCS = Path(__file__).parent
TRANSLATIONS = DOCS / "translations"
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"^<!-- block (\d+) -->$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the translated pages."""
    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def pages() -> dict[str, str]:
    """Every translated page: path below docs, text."""
    return {
        f"{language}/{name}": f'<div lang="{language}" markdown="1">\n\n{text}\n</div>\n'
        for language in languages()
        for name, text in _pages_of(language).items()
    }


def languages() -> list[str]:
    """The languages there are, by their codes."""
    return sorted(file.stem for file in TRANSLATIONS.glob("*.toml"))


def titles(language: str) -> dict[str, dict[str, str]]:
    """What the groups and the techniques are called."""
    return tomllib.loads((TRANSLATIONS / f"{language}.toml").read_text("utf-8"))


def _pages_of(language: str) -> dict[str, str]:
    made = {
        file.name: with_blocks(file.read_text("utf-8"), (DOCS / file.name).read_text("utf-8"))
        for file in sorted((TRANSLATIONS / language).glob("*.md"))
    }
    return made | {"techniques.md": _catalogue(titles(language))}


def with_blocks(text: str, english: str) -> str:
    """Put the English page's fenced blocks where a translation names them."""
    blocks = BLOCK.findall(english)
    return PLACE.sub(lambda found: blocks[int(found[1]) - 1], text)


def _catalogue(words: dict[str, dict[str, str]]) -> str:
    """One table a group, each technique linked to its English page."""
    groups: dict[str, list[Technique]] = {}
    for record in techniques().values():
        groups.setdefault(record.group.name.lower(), []).append(record)
    parts = [f"# {words['words']['techniques']}\n"]
    for group, records in groups.items():
        parts.append(f"\n## {words['groups'][group]}\n\n| | |\n|---|---|")
        parts += [
            f"| [{record.id}](../techniques/{record.id}.md) | {translated} |"
            for record in records
            if (translated := words["techniques"].get(record.id, record.title))
        ]
    return "\n".join(parts) + "\n"
