"""The tutorials: their commands can be typed, their scripts run, and show what the page says."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from hotlap.cli.main import Verbs, hotlap
from hotlap.seam.probe.facts import fast_half

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "examples" / "tutorials"
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
COMMANDS = [
    pytest.param(line[2:], id=f"{page.stem}: {line[2:]}")
    for page in PAGES
    for block in re.findall(r"```\n(.*?)```", page.read_text(), re.DOTALL)
    for line in block.splitlines()
    if line.startswith("$ ")
]
HANDS_ON = {"before.py"}
"""Files that a reader makes on the way."""
FINDS = {
    "image_folder.py": {"loader_workers", "cached_dataset"},
    "gpt.py": {"mixed_precision", "fused_pointwise", "cpu_threads"},
    "lightning_module.py": {"loader_workers", "cached_dataset"},
    "huggingface.py": {"mixed_precision"},
    "ddp.py": {"ddp_no_sync", "ddp_static_graph", "ddp_gradient_view", "ddp_bucket_size"},
}
"""What the page says that the profile of its script names."""
QUICK = {"gpt.py"}


def test_there_are_five_and_each_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text()
    assert len(PAGES) == 5
    assert all(f"tutorials/{page.name}" in nav for page in PAGES)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_can_be_typed(command: str) -> None:
    words = shlex.split(command)
    scripts = {word for word in words if word.endswith(".py")} - HANDS_ON
    assert all((SCRIPTS / name).is_file() for name in scripts)
    if words[0] != "hotlap":
        assert words[0] == "python"
        return
    assert isinstance(hotlap, Verbs)
    context = click.Context(hotlap)
    verb = hotlap.get_command(context, words[1])
    assert verb is not None
    verb.make_context(words[1], words[2:], parent=context)


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_the_techniques_that_a_page_names_are_found_in_its_script(page: Path) -> None:
    text = page.read_text()
    named = set(re.findall(r"techniques/(\w+)\.md", text))
    script = next(name for name in FINDS if name in text)
    yours = {"packed_dataset", "fused_attention", "fused_optimizer"}
    assert named <= FINDS[script] | yours


@pytest.mark.parametrize(
    "script",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in FINDS],
)
def test_the_profile_of_a_script_names_what_the_page_says(script: str, tmp_path: Path) -> None:
    shutil.copy(SCRIPTS / script, tmp_path)
    python = [sys.executable]
    if script == "image_folder.py":
        once = [*python, script, "--epochs", "1", "--photos", "20"]
        subprocess.run(once, cwd=tmp_path, check=True, timeout=240)
    if script == "ddp.py":
        python = [*python, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "hotlap", "profile", "--json", "--steps", "8", *python, script],
        cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["findings"]
    named = {remedy["id"] for finding in found for remedy in finding["remedies"]}
    lacking = set() if fast_half() else {"mixed_precision"}  # proposed where 16 bits are faster
    assert named >= FINDS[script] - lacking
