import subprocess
import sys

import pytest

from hotlap.core.errors import UsageError
from hotlap.core.facts import FACTS
from hotlap.core.registry import FOLDER, VARIABLE, technique, techniques
from hotlap.seam.probe.operators import replaced_functions

PLAIN = """
from hotlap.core.technique import Numerics
from hotlap.core.technique import Group, How, Technique

technique = Technique(
    title="A test", group=Group.DISTRIBUTED, numerics=Numerics.EXACT, how=(How.ADVICE,),
    why="why", changes="nothing", avoid="never",
)
"""


def test_ids_are_the_file_names():
    files = {path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_")}
    assert set(techniques()) == files
    assert all(record.id == name for name, record in techniques().items())


def test_a_technique_from_another_folder_is_listed(tmp_path, monkeypatch):
    (tmp_path / "my_layout.py").write_text(PLAIN)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert technique("my_layout").title == "A test"
    assert "my_layout" in techniques()


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(UsageError) as caught:
        technique("fused_optimiser")
    assert "fused_optimizer" in caught.value.hint


def test_a_name_that_several_have_in_them_gets_them_as_a_hint():
    with pytest.raises(UsageError) as caught:
        technique("num_workers")
    assert caught.value.hint == "did you mean fewer_workers or loader_workers?"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("tf32", PLAIN, "two techniques"),
        ("empty", "x = 1\n", "defines no"),
    ],
)
def test_a_bad_file_is_refused(tmp_path, monkeypatch, name, text, says):
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(UsageError, match=says):
        techniques()


def test_a_folder_that_is_not_there_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="not a folder"):
        techniques()


def test_loading_the_registry_imports_no_torch():
    program = (
        "import sys; from hotlap.core.registry import techniques; techniques(); "
        "sys.exit(any(m in sys.modules for m in ('torch', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ('needs=(Need("cudaa", "no"),)', "fact 'cudaa'"),
        ('grants=(("cuda_", True),)', "fact 'cuda_'"),
        ('symptom=Symptom(("memory",), "says", "model")', "phase 'memory'"),
    ],
)
def test_an_unknown_fact_or_phase_is_refused_at_load(tmp_path, monkeypatch, field, says):
    text = PLAIN.replace("How, Technique", "How, Need, Symptom, Technique")
    (tmp_path / "mine.py").write_text(text.replace("avoid=", f"{field}, avoid="))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(UsageError, match=says):
        techniques()


def test_each_fact_is_gathered_by_the_probe():
    seam = FOLDER.parent / "seam"
    text = "\n".join(path.read_text() for path in seam.rglob("*.py"))
    calls = replaced_functions()
    assert [name for name in FACTS if f'"{name}"' not in text and name not in calls] == []
