import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hotlap.cli.lint import lint
from hotlap.core.errors import UsageError
from hotlap.notebook.script import write_script
from hotlap.profile import sources

SLOW = """\
import torch
from torch.utils.data import DataLoader

for epoch in range(3):
    loader = DataLoader(data, 32, num_workers=2)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""
CLEAN = "import torch\nprint(torch.__version__)\n"


@pytest.fixture
def run(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments):
        return CliRunner().invoke(lint, arguments, standalone_mode=False)

    return invoke


def code(result):
    assert result.exception is None, result.exception
    return result.return_value


def test_exit_codes(run):
    Path("clean.py").write_text(CLEAN)
    assert code(run()) == 0
    Path("slow.py").write_text(SLOW)
    result = run("slow.py")
    assert code(result) == 1
    assert "loader_rebuilt" in result.output
    assert isinstance(run("missing.py").exception, UsageError)


def test_a_folder_without_python_files_is_not_called_clean(run, tmp_path):
    Path("data").mkdir()
    Path("data", "notes.txt").write_text("x")
    result = run("data")
    assert code(result) == 0
    assert f"There is no Python file at or below {tmp_path / 'data'}." in result.output
    Path("data", "clean.py").write_text(CLEAN)
    assert "no Python file" not in run("data").output


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("# coding: latin-1\n# café\n".encode("latin-1") + SLOW.encode(), "loader_rebuilt"),
        (b"name = '\xff\xfe'\n", "1:12  broken_file"),
    ],
    ids=["declared", "undeclared"],
)
def test_a_file_that_is_not_utf_8_stops_no_other(run, content, found):
    Path("nonutf.py").write_bytes(content)
    Path("slow.py").write_text(SLOW)
    result = run()
    assert code(result) == 1
    assert found in result.output
    assert "slow.py" in result.output


def test_hints_are_shown_on_request_and_count_as_clean(run):
    Path("a.py").write_text("import torch\nl = torch.utils.data.DataLoader(d)\n")
    assert code(run()) == 0
    result = run("--hints")
    assert code(result) == 0
    assert "serial_loader" in result.output
    Path("pyproject.toml").write_text("[tool.hotlap]\nhints = true\n")
    assert "serial_loader" in run().output
    assert "serial_loader" not in run("--no-hints").output


def test_a_broken_file_is_a_finding_and_the_rest_goes_on(run):
    Path("broken.py").write_text("def f(:\n")
    Path("slow.py").write_text(SLOW)
    result = run()
    assert code(result) == 1
    assert "broken_file" in result.output
    assert "loader_rebuilt" in result.output


def test_ignoring(run):
    Path("slow.py").write_text(
        SLOW.replace("num_workers=2)", "num_workers=2)  # hotlap: ignore[loader_rebuilt]")
    )
    assert "loader_rebuilt" not in run().output
    Path("slow.py").write_text(SLOW.replace("num_workers=2)", "num_workers=2)  # hotlap: ignore"))
    assert code(run("--hints")) == 0
    Path("slow.py").write_text(
        SLOW.replace("num_workers=2)", "num_workers=2)  # hotlap: ignore[x]")
    )
    assert code(run()) == 1
    assert code(run("--ignore", "loader_rebuilt")) == 0
    assert code(run("--select", "broken_file")) == 0
    Path("pyproject.toml").write_text('[tool.hotlap]\nexclude = ["slow*"]\n')
    assert code(run()) == 0
    Path("pyproject.toml").write_text(
        '[tool.hotlap.per-file-ignores]\n"slow.py" = ["loader_rebuilt"]\n'
    )
    assert code(run()) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.hotlap]\nhint = true\n", "knows no 'hint'"),
        ("[tool.hotlap]\nignore = 3\n", "must be a list"),
        ('[tool.hotlap]\nignore = ["loader_rebuild"]\n', "no pattern called"),
        ("[tool.hotlap\n", "not TOML"),
    ],
)
def test_a_wrong_configuration_is_named(run, text, said):
    Path("pyproject.toml").write_text(text)
    error = run().exception
    assert isinstance(error, UsageError)
    assert said in str(error)


def test_json(run):
    Path("slow.py").write_text(SLOW)
    found = json.loads(run("--format", "json").output)["findings"]
    assert (
        found[0] | {"path": "slow.py", "line": 5, "column": 14, "id": "loader_rebuilt"} == found[0]
    )
    assert found[0]["technique"] == "loader_reuse"


def test_sarif(run):
    Path("sub dir").mkdir()
    Path("sub dir/slow.py").write_text(SLOW)
    document = json.loads(run("--format", "sarif").output)
    assert document["version"] == "2.1.0"
    (one,) = document["runs"]
    rules = {rule["id"] for rule in one["tool"]["driver"]["rules"]}
    (result,) = one["results"]
    assert result["ruleId"] in rules
    where = result["locations"][0]["physicalLocation"]
    assert where["artifactLocation"]["uri"] == "sub%20dir/slow.py"
    assert where["region"]["startLine"] == 5
    assert where["region"]["endColumn"] > where["region"]["startColumn"]


def test_github(run):
    Path("slow.py").write_text(SLOW)
    line = run("--format", "github").output
    assert line.startswith("::warning file=slow.py,line=5,endLine=5,col=14,title=hotlap loader_re")


def test_list_names_every_pattern(run):
    listed = json.loads(run("--list", "--format", "json").output)["patterns"]
    assert {"serial_loader", "loader_rebuilt"} <= {entry["id"] for entry in listed}
    assert all(entry["says"] and entry["remedy"] for entry in listed)


def test_installed_and_hidden_folders_are_left_out(run):
    for folder in (".hidden", "site-packages", "env"):
        Path(folder).mkdir()
        Path(folder, "slow.py").write_text(SLOW)
    Path("env/pyvenv.cfg").write_text("")
    assert code(run()) == 0
    assert code(run("site-packages/slow.py")) == 1


def test_a_profile_gives_costs_and_drops_what_costs_nothing(run, tmp_path):
    Path("train.py").write_text(
        "import torch\nloader = torch.utils.data.DataLoader(data)\n"
        "other = torch.utils.data.DataLoader(data)\n"
    )
    assert isinstance(run("--profile").exception, UsageError)
    Path(".hotlap").mkdir()
    Path(".hotlap/profile.json").write_text("{")
    assert isinstance(run("--profile").exception, UsageError)
    digest = sources.digest(Path("train.py").read_bytes())
    lines = {"2": {"data": [0.0019, 20]}}
    profiled(tmp_path / "train.py", {"digest": digest, "lines": lines})
    result = run("--profile")
    assert code(result) == 1
    assert "2:10" in result.output
    assert "1.9 ms of 14.2 ms a step" in result.output
    assert "3:9" not in result.output


def test_a_problem_of_the_profile_that_no_pattern_shows_is_named(run):
    Path("train.py").write_text("import torch\nmodel = torch.nn.Linear(4, 4).double()\n")
    remedy = {"id": "float64_compute", "place": "train.py:2", "also": []}
    found = {
        "what": "computing in float64: 94% of a step", "place": "train.py:2", "text": "",
        "share": 0.94, "remedies": [remedy], "problem": True, "pattern": "",
    }  # fmt: skip
    option = found | {"what": "the optimizer: 8% of a step", "problem": False}
    profiled("train.py", {"digest": "", "lines": {}}, findings=[found, option])
    output = run("--profile").output
    assert "in the profile alone: train.py:2  computing in float64: 94% of a step" in output
    assert "the optimizer" not in output
    assert "alone" not in run("--profile", "--quiet").output


def test_a_report_is_not_judged_as_source(run):
    Path("report.json").write_text("{}")
    error = run("--profile", "report.json").exception
    assert isinstance(error, UsageError)
    assert "--profile takes no file" in error.hint


def profiled(path, known, findings=()):
    document = {
        "step": 0.0142, "folder": str(Path.cwd()), "findings": list(findings), "phases": [],
        "places": {}, "facts": {},
        "files": {str(path): known},
    }  # fmt: skip
    Path(".hotlap").mkdir(exist_ok=True)
    Path(".hotlap/profile.json").write_text(json.dumps(document))


@pytest.mark.parametrize("named", [".", "train.ipynb"])
def test_a_profile_knows_a_notebook_below_a_folder(run, named):
    source = "import torch\nloader = torch.utils.data.DataLoader(data)"
    cell = {"cell_type": "code", "source": source, "outputs": [], "metadata": {}}
    Path("train.ipynb").write_text(json.dumps({"nbformat": 4, "metadata": {}, "cells": [cell]}))
    script = write_script(Path("train.ipynb"))
    content = script.read_bytes()
    line = content.splitlines().index(source.encode().splitlines()[1]) + 1
    lines = {str(line): {"data": [0.0019, 20]}}
    alone = {
        "what": f"too much at {script}:{line}", "place": f"{script}:{line}", "share": 0.4,
        "remedies": [{"id": "kv_cache", "place": "", "also": []}], "problem": True,
    }  # fmt: skip
    known = {"digest": sources.digest(content), "lines": lines}
    profiled(script.resolve(), known, findings=[alone])
    result = run("--profile", named)
    assert code(result) == 1
    assert "cell 1:2:10" in result.output
    said = "in the profile alone: train.ipynb:cell 1:2  too much at train.ipynb:cell 1:2"
    assert said in result.output
    assert "1.9 ms of 14.2 ms a step" in result.output


EVALUATION = """\
import torch


def validate(model, loader):
    model.eval()
    for x, y in loader:
        seen.append(model(x))
"""


def test_fix_rewrites_what_is_safe_and_diff_only_shows_it(run):
    Path("evaluate.py").write_text(EVALUATION)
    Path("slow.py").write_text(SLOW)
    result = run("--diff")
    assert code(result) == 1
    assert "+@torch.no_grad()" in result.output or "+    with torch.no_grad()" in result.output
    assert Path("evaluate.py").read_text() == EVALUATION
    assert code(run("--fix")) == 1
    assert "no_grad" in Path("evaluate.py").read_text()
    assert Path("slow.py").read_text() == SLOW
    assert code(run("--diff")) == 0
    assert code(run("evaluate.py")) == 0


def test_fix_names_each_change_with_its_line(run):
    Path("one.py").write_text(EVALUATION)
    Path("two.py").write_text(EVALUATION + EVALUATION[14:].replace("validate", "validate_again"))
    Path("slow.py").write_text(SLOW)
    output = run("--fix").output
    at = next(n for n, text in enumerate(lines_of("one.py"), 1) if "torch.no_grad()" in text)
    assert f"one.py:{at}\n  + {lines_of('one.py')[at - 1].strip()}\n" in output
    assert output.count("two.py:") == 2
    assert "slow.py:" not in output
    assert "nothing was rewritten" in run("--fix").output


INLINE = """\
import torch

for epoch in range(3):
    model.train()
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    for x, y in held_out:
        seen.append(model(x).argmax(1))
"""


def test_fix_shows_its_changes_with_their_indentation(run):
    Path("one.py").write_text(INLINE)
    output = run("--fix").output
    assert (
        "  - for x, y in held_out:\n"
        "  -     seen.append(model(x).argmax(1))\n"
        "  + with torch.no_grad():\n"
        "  +     for x, y in held_out:\n"
        "  +         seen.append(model(x).argmax(1))\n"
    ) in output, output


def lines_of(name):
    return Path(name).read_text().splitlines()


def test_fix_ends_with_what_was_fixed_and_what_is_left(run):
    Path("one.py").write_text(EVALUATION)
    Path("two.py").write_text(EVALUATION + EVALUATION[14:].replace("validate", "validate_again"))
    assert run("--fix").output.endswith("3 findings fixed in one.py, two.py; nothing left\n")
    Path("one.py").write_text(EVALUATION)
    Path("slow.py").write_text(SLOW)
    output = run("--fix").output
    assert output.endswith("1 finding fixed in one.py; 1 finding left\n"), output
    assert "slow.py" in output
    assert run("--fix").output.endswith("nothing fixed; 1 finding left\n")
    assert run("--fix", "one.py").output.endswith("nothing fixed; nothing left\n")
    assert "left" not in run("--fix", "--quiet").output


def test_how_to_see_the_hints_is_said_with_what_to_type(run):
    Path("a b").mkdir()
    Path("a b/clean.py").write_text(CLEAN)
    output = run("a b").output
    assert "Type `hotlap lint --hints 'a b'` to see them" in output
    assert "`hotlap profile CMD...` and then `hotlap lint --profile`" in output
    assert "Type `hotlap lint --hints` to see them" in run().output
    assert "Type" not in run("--hints").output


def test_a_baseline_hides_what_is_known_wherever_it_moves(run):
    Path("slow.py").write_text(SLOW)
    assert code(run("--write-baseline", "known.json")) == 0
    assert code(run("--baseline", "known.json")) == 0
    Path("slow.py").write_text("# moved\n\n" + SLOW)
    assert code(run("--baseline", "known.json")) == 0
    Path("new.py").write_text(SLOW)
    result = run("--baseline", "known.json")
    assert code(result) == 1
    assert "new.py" in result.output
    assert "slow.py" not in result.output
    assert isinstance(run("--baseline", "none.json").exception, UsageError)
    Path("bad.json").write_text("[]")
    assert isinstance(run("--baseline", "bad.json").exception, UsageError)


def test_statistics_counts_patterns(run):
    Path("a.py").write_text(SLOW)
    Path("b.py").write_text(SLOW)
    assert run("--statistics").output.split() == ["2", "loader_rebuilt"]


def test_selection_on_the_command_line(run):
    Path("a.py").write_text("import torch\nl = torch.utils.data.DataLoader(d)\n")
    assert "serial_loader" not in run().output
    assert "serial_loader" in run("--extend-select", "serial_loader").output
    Path("slow.py").write_text(SLOW)
    assert code(run("--per-file-ignores", "slow.py:loader_rebuilt")) == 0
    assert code(run("--per-file-ignores", "other.py:loader_rebuilt")) == 1
    assert isinstance(run("--per-file-ignores", "slow.py").exception, UsageError)
    assert isinstance(run("--extend-select", "nothing").exception, UsageError)


def test_a_hint_that_is_selected_by_its_id_is_shown(run):
    Path("a.py").write_text("import torch\nl = torch.utils.data.DataLoader(d)\n")
    for ids in ("serial_loader", "item_in_step, serial_loader,"):
        result = run("--select", ids)
        assert "hint serial_loader" in result.output
        assert "Type" not in result.output
        assert code(result) == 0


def test_reviewdog_and_gitlab(run):
    Path("slow.py").write_text(SLOW + SLOW)
    first = json.loads(run("--format", "rdjsonl").output.splitlines()[0])
    assert first["location"]["path"] == "slow.py"
    assert first["location"]["range"]["start"] == {"line": 5, "column": 14}
    assert (first["code"]["value"], first["severity"]) == ("loader_rebuilt", "WARNING")
    entries = json.loads(run("--format", "gitlab").output)
    assert entries[0]["location"]["lines"]["begin"] == 5
    assert len({entry["fingerprint"] for entry in entries}) == len(entries) == 2


def test_a_long_search_says_what_was_done(run, tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text("import helper\n" + SLOW)
    (tmp_path / "helper.py").write_text("import torch\n")
    assert code(run("train.py")) == 1
    assert "files" not in run("train.py").stderr, "nothing where it is quick"
    for name in ("FIRST_SECONDS", "PROGRESS_SECONDS"):
        monkeypatch.setattr(f"hotlap.cli.lint.{name}", 0.0)
    said = run("train.py").stderr.splitlines()
    assert said[0].startswith("hotlap: 1 file read, imported ones included")
    assert said[1].startswith("hotlap: 2 files read")
    assert said[2].startswith("hotlap: 0 of 1 file judged")
    assert run("--quiet", "train.py").stderr == ""
