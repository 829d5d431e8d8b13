"""JSON Schemas of the documents that `--json` prints, made from the types that they are made of.

The files in `schemas/` are written by `python -m hotlap.reporting.schema`; a test keeps them true.
"""

import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from hotlap.core.machine import Machine
from hotlap.profile.model import Profile
from hotlap.reporting.compare_text import Row
from hotlap.source.lint import Spot
from hotlap.trial.doctor import Check
from hotlap.trial.race import RaceResult
from hotlap.tune.result import TuneResult

FOLDER = Path(__file__).parent / "schemas"
Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}
NUMBER: Schema = {"type": ["number", "null"]}
"""Infinities and NaN are null."""
NUMBERS: Schema = {"type": "object", "additionalProperties": NUMBER}
FLAG: Schema = {"type": "boolean"}
HEAD: dict[str, Schema] = {
    "schema_version": {"const": 1},
    "hotlap": TEXT,
    "verb": TEXT,
    "arguments": TEXTS,
}
SIMPLE: dict[Any, Schema] = {
    str: TEXT,
    Path: TEXT,
    bool: FLAG,
    int: {"type": "integer"},
    float: NUMBER,
    type(None): {"type": "null"},
}


def of(kind: object) -> Schema:
    """The schema of a type's values, as `plain` writes them."""
    if kind in SIMPLE:
        return SIMPLE[kind]
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return objects({f.name: of(hints[f.name]) for f in fields(kind)})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    origin, inside = get_origin(kind), get_args(kind)
    if origin in {Union, types.UnionType}:
        return {"anyOf": [of(one) for one in inside]}
    return _container(origin, inside) if isinstance(origin, type) else {}


def _container(origin: type, inside: tuple[object, ...]) -> Schema:
    if issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": of(inside[1])}
    if issubclass(origin, Sequence):
        same = origin is not tuple or inside[1:] == (Ellipsis,)
        return {"type": "array", "items": of(inside[0]) if same else {}}
    return {}


def objects(properties: Mapping[str, Schema]) -> Schema:
    """An object that has all of these; further keys may come with further versions."""
    return {"type": "object", "properties": dict(properties), "required": list(properties)}


def _fields(kind: object, *without: str) -> dict[str, Schema]:
    found: dict[str, Schema] = of(kind)["properties"]
    return {name: schema for name, schema in found.items() if name not in without}


def _measured() -> dict[str, Schema]:
    """What a document that stands on trials says of the machine and the isolation."""
    isolation = objects({"tier": TEXT, "changed": TEXTS})
    return {"machine": objects(_fields(Machine) | {"fingerprint": TEXT}), "isolation": isolation}


def schemas() -> dict[str, Schema]:
    """The schema of each verb's document, and `head`, which holds for all of them."""
    steps = {"anyOf": [{"type": "null"}, objects({"plain": NUMBER, "tuned": NUMBER})]}
    optional: Schema = {"type": ["string", "null"]}
    compared = objects(_fields(Row) | {"ratio": NUMBER})
    bodies: dict[str, dict[str, Schema]] = {
        "head": {},
        "profile": _fields(Profile) | _measured(),
        "tune": _fields(TuneResult, "profile")
        | {"confirmed": FLAG, "headline": TEXT, "recipe": optional, "final_steps": steps}
        | {"time_spent": TEXT}
        | {"command_line": TEXT, "next_steps": TEXTS, "phases": NUMBERS, "memory_by_owner": NUMBERS}
        | _measured(),
        "race": _fields(RaceResult)
        | {"commands": {"type": "array", "items": TEXTS}, "break_even": NUMBER}
        | {"max_slowdown": {"type": ["number", "null"]}}
        | _measured(),
        "lint": {"findings": {"type": "array", "items": of(Spot)}},
        "compare": {
            "of": TEXT, "rows": {"type": "array", "items": compared}, "notes": TEXTS,
            "files": TEXTS,
        },
        "doctor": {"checks": {"type": "array", "items": of(Check)}},
        "patch": {
            "written": FLAG,
            "imports_hotlap": FLAG,
            "files": {"type": "array", "items": objects({"path": TEXT, "diff": TEXT})},
            "techniques": {"type": "object", "additionalProperties": TEXT},
            "by_hand": {"type": "array", "items": objects({
                "technique": TEXT, "path": TEXT, "line": {"type": ["integer", "null"]},
                "place": TEXT, "text": TEXT,
            })},
        },
    }  # fmt: skip
    return {
        verb: {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": f"hotlap {verb} --json" if body else "what every document of hotlap says",
            **objects(HEAD | body),
        }
        for verb, body in bodies.items()
    }


def text_of(schema: Schema) -> str:
    """A schema as its file holds it."""
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, found in schemas().items():
        (FOLDER / f"{name}.json").write_text(text_of(found), "utf-8")
