"""`hotlap doctor`: what is found, and what is said where something is missing."""

import importlib.metadata
import importlib.util
import json
import shutil

import pytest
from click.testing import CliRunner

from hotlap.cli.doctor import doctor
from hotlap.trial.doctor import State, checks


def found(tmp_path):
    return {check.name: check for check in checks(tmp_path)}


def test_each_fault_says_what_to_do(tmp_path):
    for check in checks(tmp_path):
        assert check.detail
        if check.state is State.MISSING:
            assert check.fix


def test_a_missing_compiler_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    assert found(tmp_path)["C++ compiler"].state is State.MISSING


@pytest.mark.parametrize(("version", "state"), [("2.13.0+cpu", State.OK), ("2.4.1", State.LIMITED)])
def test_an_old_torch_is_named(tmp_path, monkeypatch, version, state):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    assert found(tmp_path)["torch"].state is state


def test_without_torch_the_environment_is_the_fault(tmp_path, monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    check = found(tmp_path)["torch"]
    assert check.state is State.MISSING
    assert "environment" in check.fix


def test_a_library_that_is_not_installed_gets_its_install_line(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install 'hotlap[mcp]'" in found(tmp_path)["mcp"].fix


def test_the_verb_prints_a_table_or_json_and_exits_with_1_when_something_is_missing(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert "isolation of trials" in CliRunner().invoke(doctor, []).output
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    done = CliRunner().invoke(doctor, ["--json"])
    assert done.exit_code == 1
    assert {check["name"] for check in json.loads(done.output)["checks"]} >= {"torch", "GPU"}
