"""`hotlap bench`: what a row says of a claim, and that each workload does what its row says."""

import importlib
import json
import math

import pytest
import torch
from click.testing import CliRunner

from hotlap.bench import run
from hotlap.bench.rows import ROWS, Measure, Row, chosen
from hotlap.bench.run import Finding, Measured, Plan, judge, measure, measure_rows
from hotlap.cli.main import hotlap
from hotlap.core.errors import UsageError
from hotlap.core.machine import Gpu, Machine
from hotlap.reporting import bench_text

CPU = Machine("cpu", 4, 2, 2**33, (), "Linux", "6", "x86_64")
ROW = Row("gelu", "gelu", "3x", "an article", "operators:gelu_kernel", 3.0)
ON_CPU = [row for row in ROWS if not row.gpus]


@pytest.mark.parametrize(
    ("low", "high", "claimed", "finding"),
    [
        (2.0, 3.5, 3.0, Finding.CONFIRMED),
        (1.2, 1.5, 3.0, Finding.SMALLER),
        (0.8, 1.01, 3.0, Finding.REFUTED),
        (0.8, 0.9, 1.0, Finding.REFUTED),
        (0.9, 1.4, 3.0, Finding.INCONCLUSIVE),
        (0.0, math.inf, 3.0, Finding.INCONCLUSIVE),
        (1.1, 1.3, 1.0, Finding.CONFIRMED),
    ],
)
def test_what_an_interval_says_of_a_claim(low, high, claimed, finding):
    row = Row("x", "x", "x", "x", "x:x", claimed)
    assert judge(row, low, high) is finding


def test_rows_are_named_once_and_have_a_workload():
    assert len({row.id for row in ROWS}) == len(ROWS)
    for row in ROWS:
        module, _, name = row.workload.partition(":")
        made = getattr(importlib.import_module(f"hotlap.bench.workloads.{module}"), name)
        assert made.__doc__
        assert row.source
        assert row.claim


def test_an_unknown_row_is_refused():
    with pytest.raises(UsageError, match="no row 'gelo'"):
        chosen(("gelo",))


def test_what_this_machine_lacks_is_said():
    row = next(row for row in ROWS if row.id == "ddp")
    assert measure(row, CPU, Plan()).finding is Finding.NEEDS_GPU
    absent = Row("x", "x", "x", "x", "x:x", cpu_only=True, needs="no_such_module")
    found = measure(absent, CPU, Plan())
    assert (found.finding, found.note) == (Finding.NOT_RUN, "needs pip install no_such_module")


@pytest.mark.slow
def test_a_workload_that_fails_is_said():
    found = measure(Row("x", "x", "x", "x", "operators:none", 1.0), CPU, Plan(1, 0.1))
    assert found.finding is Finding.NOT_RUN
    assert "no attribute 'none'" in found.note


@pytest.mark.slow
def test_a_row_is_measured_in_pairs_and_launches():
    found = measure(ROW, CPU, Plan(launches=2, seconds=0.1))
    assert found.pairs >= 12
    assert 0 < found.low < found.ratio < found.high
    assert found.device == "cpu"


def test_ctrl_c_keeps_the_rows_that_are_complete(monkeypatch):
    def measured(row, *_):
        if row is ON_CPU[1]:
            raise KeyboardInterrupt
        return Measured(row, Finding.SMALLER)

    monkeypatch.setattr(run, "measure", measured)
    found, interrupted = measure_rows(ON_CPU[:3], CPU, Plan(), lambda _: None)
    assert interrupted
    assert [one.row for one in found] == ON_CPU[:1]


def test_a_plan_with_an_end_names_the_rows_that_it_leaves_out(monkeypatch):
    times = iter([0.0, 0.0, 100.0, 265.0])
    monkeypatch.setattr(run.time, "monotonic", lambda: next(times))
    given = []

    def child(row, device, plan, launch):
        given.append(plan.total)
        return [[[2.0, True], [1.0, True]]] * 6, ""

    monkeypatch.setattr(run, "_child", child)
    rows = [Row(name, "x", "x", "x", "x:x", cpu_only=True) for name in ("a", "b", "c")]
    found, _ = measure_rows(rows, CPU, run.QUICK, lambda _: None)
    assert [one.finding for one in found] == [Finding.CONFIRMED, Finding.CONFIRMED, Finding.NOT_RUN]
    assert found[2].note == "no time was left: hotlap bench --quick --only c"
    assert max(given) <= run.QUICK.total < 300


def test_what_a_row_measured_by_its_end_counts(tmp_path, monkeypatch):
    def late(*_, **__):
        output = b"[[2.0, true], [1.0, true]]\n" * pairs + b"[[2.0, tr"
        raise run.subprocess.TimeoutExpired("x", 1, output)

    monkeypatch.setattr(run.subprocess, "run", late)
    pairs = 8
    assert measure(ROW, CPU, Plan(launches=1)).pairs == 8
    pairs = 2
    assert measure(ROW, CPU, Plan(launches=1)).note == "it did not come to an end"


def test_runs_that_miss_the_target_are_part_of_the_ratio():
    row = Row("x", "x", "x", "x", "x:x", 4.0, Measure.TIME_TO_TARGET)
    pairs = [[[10.0 + seed, False], [2.0, True]] for seed in range(5)]
    _, low, high = run._ratio(row, [pairs])
    assert low > 1
    assert high == math.inf
    assert judge(row, low, high) is Finding.CONFIRMED


def test_both_sides_of_the_operators_compute_the_same():
    from hotlap.bench.workloads import operators
    from hotlap.kernels import gelu

    x = torch.randn(64, 48, dtype=torch.float64)
    torch.testing.assert_close(operators._formula(x), torch.nn.functional.gelu(x))
    torch.testing.assert_close(gelu(x.float()), torch.nn.functional.gelu(x).float())


@pytest.mark.slow
@pytest.mark.parametrize("row", ON_CPU, ids=[row.id for row in ON_CPU])
def test_every_row_of_a_cpu_is_measured(row):
    found = measure(row, CPU, Plan(launches=1, seconds=0.2))
    if found.note.startswith("needs pip install"):
        pytest.skip(found.note)
    assert not math.isnan(found.ratio), found.note


@pytest.mark.gpu
@pytest.mark.parametrize("row", [row for row in ROWS if row.gpus], ids=lambda row: row.id)
def test_every_row_of_a_gpu_is_measured(row):
    if torch.cuda.device_count() < row.gpus:
        pytest.skip(f"needs {row.gpus} devices")
    gpus = (Gpu("a GPU", 2**35),) * torch.cuda.device_count()
    machine = Machine("cpu", 4, 2, 2**33, gpus, "Linux", "6", "x86_64")
    assert not math.isnan(measure(row, machine, Plan(1, 0.5)).ratio)


def test_the_verb_writes_the_table_as_text_json_and_html(tmp_path):
    page = tmp_path / "bench.html"
    words = ["bench", "--quick", "--only", "checkpointing", "--html", str(page)]
    shown = CliRunner().invoke(hotlap, words)
    assert shown.exit_code == 0
    assert "4.00x memory (cpu)" in shown.output
    assert "confirmed" in page.read_text()
    printed = CliRunner().invoke(hotlap, ["bench", "--quick", "--only", "ddp", "--json"])
    document = json.loads(printed.stdout)
    assert document["verb"] == "bench"
    (row,) = document["rows"]
    assert row["row"]["id"] == "ddp"
    assert (row["finding"] == "needs a GPU") == (torch.cuda.device_count() < 2)
    refused = CliRunner().invoke(hotlap, ["bench", "--only", "gelo"])
    assert refused.exit_code != 0


def test_the_page_of_the_documentation_has_all_rows():
    lines = list(bench_text.markdown([Measured(row, Finding.NOT_RUN) for row in ROWS]))
    assert len(lines) == len(ROWS) + 2
