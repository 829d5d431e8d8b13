import json
import signal
import subprocess
import sys
import time
import tomllib

import psutil
import pytest
from click.testing import CliRunner

from hotlap.cli.plan import plan
from hotlap.core.errors import UsageError
from hotlap.parallel.parallelism import Parallelism
from hotlap.plan.reading import read_shape


def invoke(*arguments, verify="0"):
    result = CliRunner().invoke(plan, (*arguments, "--verify", verify), standalone_mode=False)
    assert result.exception is None, result.exception
    return result


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_report_is_kept_with_the_best_layouts(tmp_path):
    invoke("--batch", "512", "--gpus", "64", "llama3-8b")
    (page,) = (tmp_path / ".hotlap" / "reports").glob("*-plan.html")
    assert "Layouts that fit" in page.read_text()
    assert len(json.loads(page.with_suffix(".json").read_text())["fitting"]) == 10


def test_the_table_and_the_line_that_starts_it():
    result = invoke("--batch", "512", "--gpus", "64", "llama3-8b")
    assert result.return_value == 0
    assert "tokens/s" in result.output
    assert "torchrun --nnodes 8 --nproc-per-node 8" in result.output


def test_nothing_fits():
    result = invoke("--batch", "64", "--gpus", "8", "--gpu", "a100", "gpt3-175b")
    assert result.return_value == 1
    assert "nothing fits" in result.output


def test_no_layout_is_possible_and_every_reason_is_said():
    result = invoke("--batch", "7", "--gpus", "64", "--tensor", "8", "gpt2")
    assert result.return_value == 1
    assert "no layout is possible" in result.output
    assert "left out" in result.output
    assert "other reasons" not in result.output


def test_an_impossible_request_says_which_rule_fails_and_what_works():
    given = "--batch", "64", "--gpus", "8", "--tensor", "3", "llama3-8b"
    text = invoke(*given)
    assert text.return_value == 1
    assert "tensor 3 does not divide 8 GPUs" in text.output
    assert "nearest that works: --tensor" in text.output
    document = json.loads(invoke("--json", *given).output)
    assert document["impossible"] == "tensor 3 does not divide 8 GPUs"
    assert document["nearest"]["layout"]["tensor"] in (2, 4)


def test_json_and_the_emitted_layout_agree(tmp_path):
    target = tmp_path / "layout.toml"
    result = invoke("--batch", "512", "--gpus", "64", "--json", "--emit", str(target), "llama3-8b")
    best = json.loads(result.output)["fitting"][0]["layout"]
    written = tomllib.loads(target.read_text())
    degrees = written["parallelism"]
    assert degrees["data_parallel_shard_degree"] == best["shard"]
    assert degrees["tensor_parallel_degree"] == best["tensor"]
    data = best["shard"] * best["replicate"]
    assert written["training"]["local_batch_size"] * data == 512


def test_memory_and_sequence_can_be_given():
    small = invoke("--batch", "64", "--gpus", "8", "--memory", "24", "--sequence", "2048", "--json",
                   "llama3-8b")  # fmt: skip
    for found in json.loads(small.output)["fitting"]:
        assert sum(found["memory"].values()) <= 24 * 2**30


TINY = "layers=4\nhidden=64\nheads=4\nvocabulary=512\nsequence=32\n"


def test_a_model_without_a_field_is_told_which(tmp_path):
    model = tmp_path / "tiny.toml"
    model.write_text("layers=4\nhidden=64\n")
    with pytest.raises(UsageError, match="lacks heads, vocabulary"):
        read_shape(str(model))


def test_the_best_layout_is_verified_and_written(tmp_path):
    model, target = tmp_path / "tiny.toml", tmp_path / "layout.toml"
    model.write_text(TINY)
    result = invoke("--batch", "16", "--gpus", "8", "--tensor", "2", "--pipeline", "2",
                    "--emit", str(target), str(model), verify="1")  # fmt: skip
    assert result.return_value == 0
    assert "verified: stage 0" in result.output
    assert "verified: stage 1" in result.output
    assert "a rank sends in a step" in result.output
    read = Parallelism.from_toml(target)
    assert (read.world, read.tensor_parallel_degree, read.pipeline_parallel_degree) == (8, 2, 2)


def test_only_what_was_asked_for_is_shown():
    result = invoke("--batch", "512", "--gpus", "64", "--tensor", "4", "--recompute", "blocks",
                    "--json", "llama3-8b")  # fmt: skip
    found = json.loads(result.output)
    layouts = [plan["layout"] for plan in found["fitting"] + found["closest"]]
    assert layouts
    assert all(lay["tensor"] == 4 and lay["recompute"] == "blocks" for lay in layouts)
    assert found["verified"] == []


def test_the_cluster_can_be_described():
    def step(*more):
        found = invoke("--batch", "512", "--gpus", "64", "--json", *more, "llama3-8b")
        return json.loads(found.output)["fitting"][0]["step"]

    assert step("--peak", "2000") < step("--peak", "500")
    assert step("--outside", "0.1", "--inside", "0.1") > step()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gpt5",), "no model that is known"),
        (("llama3-8",), "did you mean 'llama3-8b'"),
        (("nowhere:build",), "No module named 'nowhere'"),
        (("--emit", "/nowhere/layout.toml", "--verify", "0", "gpt2"), "cannot write"),
    ],
)
def test_what_cannot_be_taken_is_said(arguments, said, typed, tmp_path):
    done = typed("plan", "--gpus", "8", "--batch", "64", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupt_ends_the_dry_run_too():
    command = [
        sys.executable,
        "-m",
        "hotlap",
        "plan",
        "--gpus",
        "64",
        "--batch",
        "512",
        "llama3-8b",
    ]
    process = psutil.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (children := process.children(recursive=True)) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "tokens/s" in out  # what formulas say was there already
    assert "Traceback" not in err
    assert not any(child.is_running() for child in children)
