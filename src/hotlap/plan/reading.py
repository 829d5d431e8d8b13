"""A model's shape from its name, a Hugging Face config, or a file of ours."""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path

from hotlap.core.errors import UsageError, did_you_mean
from hotlap.core.protocol import Document
from hotlap.plan.families import FAMILIES
from hotlap.plan.shape import KNOWN, Shape


def read_shape(name: str) -> Shape:
    """A known model's name, a Hugging Face `config.json` or a model in its cache, or our TOML.

    Raises:
        UsageError: none of them, or a field is missing, unknown or of the wrong kind.
    """
    if name in KNOWN:
        return KNOWN[name]
    path = _file(name)
    try:
        if path.suffix == ".toml":
            return _own(tomllib.loads(path.read_text("utf-8")), path)
        return hugging_face(_table(json.loads(path.read_text("utf-8"))), str(path))
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def _file(name: str) -> Path:
    path = Path(name)
    if path.is_dir():
        path /= "config.json"
    if path.is_file():
        return path
    cached = _cached(name)
    if cached is not None:
        return cached
    raise UsageError(
        f"{name!r} is no model that is known, no file, and not in Hugging Face's cache",
        did_you_mean(name, KNOWN, repr, f"known: {', '.join(KNOWN)}"),
    )


def _cached(name: str) -> Path | None:
    """The newest `config.json` of a model that transformers has downloaded; nothing is fetched."""
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    hub = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    found = list(hub.glob(f"models--{name.replace('/', '--')}/snapshots/*/config.json"))
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def _table(given: object) -> Document:
    if not isinstance(given, dict):
        raise UsageError("a config.json is a table, {...}")
    return given


def _own(table: Mapping[str, object], path: Path) -> Shape:
    known = {field.name for field in fields(Shape)}
    if unknown := sorted(set(table) - known):
        raise UsageError(f"{path} has {unknown[0]!r}", f"known: {', '.join(sorted(known))}")
    return _made(dict(table), str(path))


def hugging_face(config: Document, path: str) -> Shape:
    """The shape that a Hugging Face config describes; `path` says where it is from.

    Raises:
        UsageError: of another kind of model, or a field is missing.
    """
    kind = config.get("model_type", "")
    family = FAMILIES.get(kind)
    if family is None:
        raise UsageError(
            f"{path} is of the type {kind!r}, which is not known here",
            "write layers, hidden, heads, vocabulary, sequence into a .toml file, or give "
            "module:function that builds the model",
        )
    sizes = {**family.defaults, **_renamed(config, family.names)}
    _check(sizes, path)
    return family.shape(config, sizes)


def _renamed(config: Mapping[str, object], names: Mapping[str, str]) -> dict[str, object]:
    return {
        ours: config[theirs] for ours, theirs in names.items() if config.get(theirs) is not None
    }


def _made(given: Document, path: str) -> Shape:
    _check(given, path)
    return Shape(**given)


def _check(given: Mapping[str, object], path: str) -> None:
    kinds = {field.name: bool if field.type is bool else int for field in fields(Shape)}
    for name, value in given.items():
        if type(value) is not kinds[name]:
            kind = "true or false" if kinds[name] is bool else "a whole number"
            raise UsageError(f"{path}: {name} is {value!r}; it is to be {kind}")
    needed = [field.name for field in fields(Shape) if field.default is MISSING]
    if missing := [name for name in needed if name not in given]:
        raise UsageError(f"{path} lacks {', '.join(missing)}", f"it is to have {', '.join(needed)}")
