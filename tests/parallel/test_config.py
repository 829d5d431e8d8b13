"""A Parallelism: its names, its degrees against the world, its table in a file."""

from pathlib import Path

import pytest

from hotlap.parallel.parallelism import Parallelism

LEFT = "data_parallel_shard_degree=-1 takes all that are left"


@pytest.mark.parametrize(
    ("names", "field", "value"),
    [
        ({"dp_shard_size": 4}, "data_parallel_shard_degree", 4),
        ({"dp_replicate_size": 2}, "data_parallel_replicate_degree", 2),
        ({"tp_size": 2, "cp_size": 1}, "tensor_parallel_degree", 2),
        ({"pp": 2}, "pipeline_parallel_degree", 2),
        ({"pipeline": 2, "chunks": 8}, "pipeline_parallel_microbatches", 8),
        ({"pp": 2, "schedule": "GPipe"}, "pipeline_parallel_schedule", "GPipe"),
        ({"fsdp": -1, "param_dtype": "bfloat16"}, "mixed_precision_param", "bfloat16"),
        ({"shard": 2, "fsdp_reshard_after_forward": "never"}, "reshard_after_forward", "never"),
        ({"tensor": 2, "sequence": True}, "sequence_parallel", True),
    ],
)
def test_other_names(names: dict[str, object], field: str, value: object) -> None:
    assert getattr(Parallelism.of(**names), field) == value


@pytest.mark.parametrize(
    ("names", "word"),
    [
        ({"tp": 2, "tensor": 2}, "tp and tensor are the same"),
        ({"cp_size": 2}, "not supported"),
        ({"tensr": 2}, "no 'tensr'"),
        ({"tp": 0}, "tensor_parallel_degree=0"),
        ({"tp": -1}, "tensor_parallel_degree=-1"),
        ({"tp": True}, "tensor_parallel_degree=True"),
        ({"shard": 1.5}, "data_parallel_shard_degree=1.5"),
        ({"pp": 2, "schedule": "1f1b"}, "none of GPipe, 1F1B"),
        ({"pp": 4, "chunks": 3}, "cannot fill 4 stages"),
        ({"pp": 2, "chunks": 5, "schedule": "Interleaved1F1B"}, "multiple of 2"),
        ({"pp": 2, "chunks": 3, "schedule": "DualPipeV"}, "cannot fill 4 stages"),
        ({"pp": 2, "chunks": -1}, "cannot be negative"),
        ({"sequence": True}, "tensor_parallel_degree, which is 1"),
        ({"tp": 2, "sequence": "yes"}, "true or false"),
        ({"shard": 2, "comm_hook": "bf16"}, "is DDP's"),
        ({"replicate": 2, "comm_hook": "int8"}, "none of bf16"),
        ({"bucket_cap_mb": 0}, "above 0"),
    ],
)
def test_what_cannot_be(names: dict[str, object], word: str) -> None:
    with pytest.raises(ValueError, match="Parallelism") as error:
        Parallelism.of(**names)
    assert word in str(error.value)


@pytest.mark.parametrize(
    ("names", "world", "shard"),
    [
        ({}, 1, 1),
        ({"shard": -1}, 1, 1),
        ({"shard": -1}, 8, 8),
        ({"shard": -1, "tp": 2, "pp": 2}, 8, 2),
        ({"replicate": 2, "shard": 2, "pp": 2}, 8, 2),
        ({"replicate": 8}, 8, 1),
    ],
)
def test_degrees_that_fit(names: dict[str, int], world: int, shard: int) -> None:
    full = Parallelism.of(**names).resolved(world)
    assert full.data_parallel_shard_degree == shard
    assert full.world == world


@pytest.mark.parametrize(
    ("names", "world", "word"),
    [
        ({}, 2, "say how to use the others"),
        ({"tp": 3}, 8, "tensor_parallel_degree=3 does not divide 8"),
        ({"tp": 3, "replicate": 5, "pp": 2}, 8, "replicate_degree=5 and tensor_parallel_degree=3"),
        ({"tp": 4, "pp": 4}, 8, "together they make 16, which does not divide 8"),
        ({"tp": 2, "pp": 2}, 8, f"together they make 4; {LEFT}"),
        ({"shard": -1, "tp": 4, "pp": 4}, 8, "together they make 16"),
    ],
)
def test_degrees_that_do_not_fit(names: dict[str, int], world: int, word: str) -> None:
    with pytest.raises(ValueError, match=f"does not fill a world of {world} ranks") as error:
        Parallelism.of(**names).resolved(world)
    assert word in str(error.value)


def test_a_table_and_back(tmp_path: Path) -> None:
    names = {
        "tp": 2,
        "sequence": True,
        "pp": 4,
        "schedule": "GPipe",
        "shard": -1,
        "reshard": "never",
    }
    one = Parallelism.of(**names)
    path = tmp_path / "layout.toml"
    path.write_text("[engine]\nclip = 1.0\n\n" + one.to_toml())
    assert Parallelism.from_toml(path) == one
    assert Parallelism.from_toml(path, pp=2).pipeline_parallel_degree == 2
    assert Parallelism().to_toml() == "[parallelism]\n"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[parallelism", "not TOML"),
        ("parallelism = 3", "table"),
        ("[engine]", "table"),
        ("[parallelism]\nx = 3", "'x'"),
    ],
)
def test_a_table_that_cannot_be(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "layout.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=word):
        Parallelism.from_toml(path)


def test_an_empty_table_is_the_defaults_and_no_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "layout.toml"
    path.write_text("[parallelism]\n")
    assert Parallelism.from_toml(path) == Parallelism()
    with pytest.raises(FileNotFoundError):
        Parallelism.from_toml(tmp_path / "none.toml")


def test_what_it_comes_to() -> None:
    assert Parallelism.of(replicate=2, pp=2).ddp
    assert not Parallelism.of(replicate=2, tp=2).ddp
    assert Parallelism.of(replicate=2, tp=2).fsdp
    assert not Parallelism.of(tp=2, pp=2).fsdp
    assert Parallelism.of(shard=-1, cpu_offload=True).resolved(1).fsdp
    assert Parallelism.of(replicate=2, param_dtype="bfloat16").fsdp
    assert Parallelism.of(pp=2, schedule="DualPipeV").stages == 4
    assert Parallelism.of(pp=2, chunks=8).microbatches == 8
    assert Parallelism.of(pp=4).microbatches == 4
    with pytest.raises(ValueError, match="resolved"):
        _ = Parallelism.of(shard=-1).world
