"""Spots as SARIF 2.1.0, the format of code-scanning services.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
"""

from pathlib import Path
from urllib.parse import quote

from hotlap import __version__
from hotlap.core.pattern import Pattern
from hotlap.source.lint import Spot

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def sarif(spots: list[Spot], patterns: list[Pattern]) -> dict[str, object]:
    """One run: every pattern as a rule, every spot as a result."""
    driver = {
        "name": "hotlap",
        "version": __version__,
        "rules": [_rule(pattern) for pattern in patterns],
    }
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_result(spot) for spot in spots]}],
    }


def _rule(pattern: Pattern) -> dict[str, object]:
    return {
        "id": pattern.id,
        "shortDescription": {"text": pattern.says},
        "help": {"text": pattern.remedy},
        "defaultConfiguration": {"level": _level(pattern.hint)},
    }


def _result(spot: Spot) -> dict[str, object]:
    region = {
        "startLine": spot.line,
        "startColumn": spot.column,
        "endLine": spot.end_line,
        "endColumn": spot.end_column,
    }
    where = {"artifactLocation": {"uri": _uri(spot.path)}, "region": region}
    return {
        "ruleId": spot.id,
        "level": _level(spot.hint),
        "message": {"text": f"{spot.says}; {spot.remedy}"},
        "locations": [{"physicalLocation": where}],
    }


def _level(hint: bool) -> str:
    return "note" if hint else "warning"


def _uri(path: Path) -> str:
    here = Path.cwd()
    whole = path.resolve()
    if whole.is_relative_to(here):
        return quote(whole.relative_to(here).as_posix())
    return whole.as_uri()
