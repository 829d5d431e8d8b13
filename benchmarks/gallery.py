"""`hotlap tune` on well-known public training repositories: what it keeps, and where nothing.

`python -m benchmarks.gallery [--only ID,ID] [--budget 5m] CHECKOUT...`

CHECKOUT is a local clone whose folder has the repository's name. It is copied, so that the clone
stays as it is; the copy gets synthetic data. One record for each recipe goes to `results/`;
docs/gallery.md is made from the records.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.gallery_recipes import RECIPES, Recipe
from hotlap.tune.result import OUT_OF_TIME

HOTLAP = Path(sys.executable).parent / "hotlap"
LAST_LINES = 3
"""Of a command that failed, that many lines of what it said are kept."""


def main() -> None:
    """Tune each recipe of each checkout and write its record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", nargs="+", type=Path, metavar="CHECKOUT")
    parser.add_argument("--only", default="", help="ids of recipes")
    parser.add_argument("--budget", default="5m", help="of each tune")
    options = parser.parse_args()
    for checkout in options.checkouts:
        for recipe in chosen(checkout, tuple(filter(None, options.only.split(",")))):
            print(f"{recipe.id}: {' '.join(recipe.command)}", flush=True)
            row = tuned(recipe, checkout.resolve(), options.budget)
            command = f"python -m benchmarks.gallery --only {recipe.id} --budget {options.budget}"
            record.write(f"gallery-{recipe.id}", f"{command} {checkout.name}", [row], summary(row))


def chosen(checkout: Path, only: tuple[str, ...]) -> Iterator[Recipe]:
    """The recipes of the repository that this folder is a clone of."""
    found = [one for one in RECIPES if one.repository.split("/")[1] == checkout.resolve().name]
    if not found:
        known = ", ".join(sorted({one.repository for one in RECIPES}))
        raise SystemExit(f"{checkout}: no recipe for a repository of this name; known: {known}")
    yield from (one for one in found if not only or one.id in only)


def tuned(recipe: Recipe, checkout: Path, budget: str) -> dict[str, Any]:
    """Copy the checkout, write the data, tune; what came out as a row of the record."""
    with tempfile.TemporaryDirectory(prefix="hotlap-gallery-") as temporary:
        copy = Path(temporary) / checkout.name
        shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git"))
        where = copy / recipe.folder
        recipe.data(where)
        began = time.time()
        done = subprocess.run(
            [str(HOTLAP), "tune", "--budget", budget, "--json", *recipe.command],
            cwd=where,
            env=_environment(recipe),
            capture_output=True,
            text=True,
            check=False,
        )
        about = {
            "id": recipe.id,
            "repository": recipe.repository,
            "about": recipe.about,
            "folder": recipe.folder,
            "environment": dict(recipe.environment),
            "commit": _commit(checkout),
            "command": " ".join(recipe.command),
            "budget": budget,
            "seconds": round(time.time() - began),
            "exit_code": done.returncode,
        }
        if not done.stdout.strip():
            said = done.stderr.strip().splitlines()[-LAST_LINES:]
            return about | {"error": "\n".join(said).replace(temporary, "")}
        document = json.loads(done.stdout)
        document.pop("losses")  # thousands of figures that the page does not show
        return about | {"tune": _without_paths(document, temporary)}


def _environment(recipe: Recipe) -> dict[str, str]:
    """As in an activated environment: `python` is the interpreter that hotlap runs in."""
    path = os.pathsep.join([str(HOTLAP.parent), os.environ.get("PATH", "")])
    return os.environ | {"PATH": path} | dict(recipe.environment)


def _commit(checkout: Path) -> str:
    parts = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    return subprocess.run(parts, capture_output=True, text=True, check=True).stdout.strip()


def _without_paths(document: Any, temporary: str) -> Any:
    return json.loads(json.dumps(document).replace(temporary + "/", ""))


def summary(row: dict[str, Any]) -> dict[str, Any]:
    """What the page shows of a row: the kept techniques, the final race, its parity, the load."""
    if "error" in row:
        return {"error": row["error"]}
    document = row["tune"]
    by_status: dict[str, list[str]] = {}
    for outcome in document["outcomes"]:
        by_status.setdefault(outcome["status"], []).append(outcome["technique"])
    late = [one["technique"] for one in document["outcomes"] if one["reason"] == OUT_OF_TIME]
    final = document["final"]
    estimate = final["estimate"] if final else {}
    return {
        "kept": by_status.get("kept", []),
        "confirmed": document["confirmed"],
        "ratio": estimate.get("ratio"),
        "low": estimate.get("low"),
        "high": estimate.get("high"),
        "pairs": estimate.get("pairs"),
        "parity": document["final_parity"],
        "other_cores": document["load"],
        "inconclusive": by_status.get("inconclusive", []) + late,
        "not_faster": by_status.get("not faster", []) + by_status.get("same", []),
        "broke_parity": by_status.get("broke parity", []),
    }


if __name__ == "__main__":
    main()
