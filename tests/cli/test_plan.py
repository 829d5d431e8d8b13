import json
import tomllib

from click.testing import CliRunner

from hotlap.cli.plan import plan


def invoke(*arguments, verify="0"):
    result = CliRunner().invoke(plan, (*arguments, "--verify", verify), standalone_mode=False)
    assert result.exception is None, result.exception
    return result


def test_the_table_and_the_line_that_starts_it():
    result = invoke("--batch", "512", "--gpus", "64", "llama3-8b")
    assert result.return_value == 0
    assert "tokens/s" in result.output
    assert "torchrun --nnodes 8 --nproc-per-node 8" in result.output


def test_nothing_fits():
    result = invoke("--batch", "64", "--gpus", "8", "--gpu", "a100", "gpt3-175b")
    assert result.return_value == 1
    assert "nothing fits" in result.output


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
