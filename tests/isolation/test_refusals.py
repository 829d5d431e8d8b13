"""What a verb says when the isolation refused what the program wrote."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hotlap.core.spec import Tier
from hotlap.isolation.refusals import refusal_hint, space_warning
from hotlap.isolation.tiers import Isolation

SAID = {
    "PermissionError: [Errno 13] Permission denied: '{}/model/last.pt'": "model/last.pt",
    "sh: 1: cannot create {}/log: Permission denied": "log",
    "/bin/bash: line 1: {}/log: Permission denied": "log",
    "cp: cannot create regular file '{}/best.pt': Permission denied": "best.pt",
    "rm: cannot remove \u2018{}/old\u2019: Permission denied": "old",
    'Permission denied (os error 13) at path "{}/tok.json"': "tok.json",
}


@pytest.mark.parametrize(("line", "name"), SAID.items())
def test_a_refused_write_names_path_and_option(
    tmp_path: Path, force: Callable[[Tier], None], line: str, name: str
) -> None:
    output = tmp_path / "log.txt"
    output.write_text(f"epoch 1\n{line.format(tmp_path)}\n")
    force(Tier.LANDLOCK)
    hint = refusal_hint(output, tmp_path / "scratch")
    assert f"{tmp_path / name};" in hint
    assert f"--writable {tmp_path} " in hint


def test_other_tiers_and_other_words_have_no_hint(
    tmp_path: Path, force: Callable[[Tier], None]
) -> None:
    output = tmp_path / "log.txt"
    output.write_text("ValueError: shapes differ\n")
    force(Tier.LANDLOCK)
    assert not refusal_hint(output, tmp_path / "scratch")
    output.write_text("PermissionError: [Errno 13] Permission denied: '/x'\n")
    force(Tier.OFF)
    assert not refusal_hint(output, tmp_path / "scratch")
    assert not refusal_hint(tmp_path / "none", None)


def test_a_full_disk_names_the_place(tmp_path: Path, force: Callable[[Tier], None]) -> None:
    output = tmp_path / "log.txt"
    output.write_text("OSError: [Errno 28] No space left on device\n")
    force(Tier.LANDLOCK)
    assert str(tmp_path / "scratch") in refusal_hint(output, tmp_path / "scratch")


def test_a_file_too_large_for_the_layer_is_named(tmp_path: Path) -> None:
    overlay, scratch = Isolation(Tier.OVERLAY), tmp_path / ".hotlap" / "scratch"
    scratch.mkdir(parents=True)
    (tmp_path / "small").write_text("x")
    with (scratch / "ours").open("wb") as file:
        file.truncate(1 << 43)
    assert not space_warning(overlay, scratch, tmp_path)
    with (tmp_path / "data.bin").open("wb") as file:
        file.truncate(1 << 43)
    assert f"{tmp_path / 'data.bin'} has 8192.0 GiB" in space_warning(overlay, scratch, tmp_path)
    assert not space_warning(Isolation(Tier.LANDLOCK), scratch, tmp_path)
