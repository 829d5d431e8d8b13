"""The schema files are current, and hold for what the verbs print."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hotlap.reporting.schema import FOLDER, schemas, text_of

MLP = Path(__file__).parent.parent / "scripts" / "mlp.py"


def test_the_files_are_those_that_the_types_give() -> None:
    """`python -m hotlap.reporting.schema` writes them."""
    written = {path.stem: path.read_text("utf-8") for path in FOLDER.glob("*.json")}
    current = {name: text_of(schema) for name, schema in schemas().items()}
    assert written == current, (
        "run python -m hotlap.reporting.schema, and say in CHANGELOG what changed"
    )


def check(verb: str, document: Any) -> None:
    for name in (verb, "head"):
        jsonschema.Draft202012Validator(schemas()[name]).validate(document)


def printed(folder: Path, *words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "hotlap", *words],
        cwd=folder, capture_output=True, text=True, timeout=240, check=False,
        env=os.environ | {"HOTLAP_CACHE": str(folder / "cache")},
    )  # fmt: skip
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_lint_doctor_patch_and_compare(tmp_path: Path) -> None:
    source = "import torch\nfrom torch.utils.data import DataLoader\n"
    source += "def f(data, model):\n    loader = DataLoader(data)\n    for x in loader:\n"
    source += "        loss = model(x).sum()\n        loss.backward()\n        print(loss.item())\n"
    (tmp_path / "train.py").write_text(source)
    (tmp_path / "hotlap.toml").write_text("[techniques.loader_workers]\nnum_workers = 2\n")
    found = printed(tmp_path, "lint", "--hints", "--format", "json", ".")
    assert found["findings"]
    check("lint", found)
    check("doctor", printed(tmp_path, "doctor", "--json"))
    check("patch", printed(tmp_path, "patch", "--json", "train.py"))


def test_profile_and_compare(tmp_path: Path) -> None:
    document = printed(tmp_path, "profile", "--json", "--steps", "10", sys.executable, str(MLP))
    check("profile", document)
    (tmp_path / "p.json").write_text(json.dumps(document))
    check("compare", printed(tmp_path, "compare", "--json", "p.json", "p.json"))


@pytest.mark.slow
def test_race_and_tune(tmp_path: Path) -> None:
    command = (sys.executable, str(MLP))
    check("race", printed(tmp_path, "race", "--json", "--budget", "5s", *command, "--", *command))
    found = printed(tmp_path, "tune", "--json", "--budget", "60s", "--only", "fused_optimizer",
                    *command)  # fmt: skip
    check("tune", found)


def test_a_schema_refuses_what_it_should() -> None:
    with pytest.raises(jsonschema.ValidationError):
        check("lint", {"schema_version": 1, "hotlap": "1", "verb": "lint", "arguments": []})
