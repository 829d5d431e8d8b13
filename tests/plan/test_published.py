"""The formulas against rows that were published; each with its source."""

from dataclasses import replace

import pytest

from hotlap.plan.activations import layer_activations
from hotlap.plan.cluster import PRESETS
from hotlap.plan.cost import plan
from hotlap.plan.flops import Recompute, hardware_flops, model_flops
from hotlap.plan.parallel_layout import Layout
from hotlap.plan.shape import KNOWN, Shape

A100 = PRESETS["a100"]


def gpt(layers: int, hidden: int, heads: int) -> Shape:
    return Shape(layers, hidden, heads, 51200, 2048)


@pytest.mark.parametrize(
    ("shape", "billions"),
    [
        (gpt(24, 2304, 24), 1.7),
        (gpt(30, 3072, 32), 3.6),
        (gpt(36, 4096, 32), 7.5),
        (gpt(40, 6144, 48), 18.4),
        (gpt(48, 8192, 64), 39.1),
        (gpt(60, 10240, 80), 76.1),
        (KNOWN["gpt-145b"], 145.6),
        (gpt(96, 16384, 128), 310.1),
        (gpt(105, 20480, 128), 529.6),
        (KNOWN["gpt-1t"], 1008.0),
    ],
)
def test_parameters_of_narayanan_2021_table_1(shape, billions):
    assert shape.parameters / 1e9 == pytest.approx(billions, rel=0.005, abs=0.06)


def test_parameters_of_llama_3():
    # The Llama 3 model cards: 8.03 and 70.6 billion
    assert KNOWN["llama3-8b"].parameters / 1e9 == pytest.approx(8.03, rel=0.001)
    assert KNOWN["llama3-70b"].parameters / 1e9 == pytest.approx(70.55, rel=0.001)
    assert KNOWN["gpt2"].parameters == 124_439_808  # openai-community/gpt2


def test_flops_are_the_closed_form_of_narayanan_2021():
    shape, batch = KNOWN["gpt3-175b"], 1536
    s, h, layers, v = shape.sequence, shape.hidden, shape.layers, shape.vocabulary
    closed = 96 * batch * s * layers * h**2 * (1 + s / (6 * h) + v / (16 * layers * h))
    assert hardware_flops(shape, batch, Recompute.FULL) == pytest.approx(closed, rel=1e-12)


def test_an_iteration_of_gpt3_on_1024_a100():
    # Narayanan 2021, section 5.1: 175 B, 1024 A100, batch 1536, 138 TFLOP/s a GPU: about 32 s
    total = hardware_flops(KNOWN["gpt3-175b"], 1536, Recompute.FULL)
    assert total / (138e12 * 1024) == pytest.approx(32.0, rel=0.03)


@pytest.mark.parametrize(
    ("shape", "pipeline", "gpus", "batch", "teraflops", "petaflops"),
    [(KNOWN["gpt-145b"], 8, 1536, 2304, 148, 227.1), (KNOWN["gpt-1t"], 64, 3072, 3072, 163, 502.0)],
)
def test_aggregate_rates_of_narayanan_2021_table_1(
    shape, pipeline, gpus, batch, teraflops, petaflops
):
    """A step as long as the published rate a GPU makes it, communication left out."""
    layout = Layout(gpus // (8 * pipeline), 1, 8, pipeline, 1, Recompute.FULL)
    bubble = (pipeline - 1) / layout.micro_batches(batch)
    kernels = teraflops * 1e12 * (1 + bubble) / A100.peak
    free = replace(A100.having(gpus), achieved=kernels, inside=1e30, outside=1e30)
    found = plan(shape, free, layout, batch)
    rate = hardware_flops(shape, batch, Recompute.FULL) / found.step
    assert rate / 1e15 == pytest.approx(petaflops, rel=0.03)


@pytest.mark.parametrize(
    ("gpus", "teraflops", "seconds"), [(2240, 126, 60.1), (2800, 121, 50.2), (3360, 113, 44.4)]
)
def test_iterations_of_mt_nlg_530b(gpus, teraflops, seconds):
    # Smith et al. 2022, section 4.2: batch 1920 on 280, 350 and 420 DGX A100
    total = hardware_flops(KNOWN["gpt-530b"], 1920, Recompute.FULL)
    assert total / (gpus * teraflops * 1e12) == pytest.approx(seconds, rel=0.03)


@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "sequence", "measured"),
    [(48, 6144, 64, 2048, 1.0530), (96, 12288, 96, 2048, 1.0272),
     (105, 20480, 128, 2048, 1.0179), (128, 25600, 160, 2048, 1.0124)],
)  # fmt: skip
def test_hardware_over_model_flops_of_korthikanti_2022_table_5(
    layers, hidden, heads, sequence, measured
):
    shape = Shape(layers, hidden, heads, 51200, sequence)
    ratio = hardware_flops(shape, 1, Recompute.SELECTIVE) / model_flops(shape, 1)
    assert ratio == pytest.approx(measured, rel=0.003)


@pytest.mark.parametrize(
    ("shape", "pipeline", "batch", "rows"),
    [
        (KNOWN["gpt3-175b"], 12, 1536, {384: 153.0, 768: 149.0, 1536: 141.0}),
        (KNOWN["gpt-530b"], 35, 2240, {560: 171.0, 1120: 167.0, 2240: 159.0}),
    ],
)
def test_weak_rows_of_narayanan_2021_table_2_follow_from_the_bubble(shape, pipeline, batch, rows):
    """TFLOP/s a GPU as data parallelism grows; the first row gives what the kernels achieve."""

    def bubble(gpus: int) -> float:
        layout = Layout(gpus // (8 * pipeline), 1, 8, pipeline, 1, Recompute.FULL)
        return plan(shape, A100.having(gpus), layout, batch).bubble

    first = min(rows)
    kernels = rows[first] * (1 + bubble(first))
    for gpus, measured in rows.items():
        assert kernels / (1 + bubble(gpus)) == pytest.approx(measured, rel=0.03)


def test_activations_of_korthikanti_2022():
    shape = KNOWN["gpt3-175b"]
    sbh = shape.sequence * shape.hidden
    core = 5 * shape.heads * shape.sequence / shape.hidden
    whole = layer_activations(shape, Layout(1, 1, 1, 1, 1, Recompute.PLAIN))
    assert whole == pytest.approx(sbh * (34 + core))
    split = layer_activations(shape, Layout(1, 1, 8, 1, 1, Recompute.PLAIN))
    assert split == pytest.approx(whole / 8)
    # the paper: selective recomputation saves 70 % of GPT-3's activations, at 2.7 % more FLOPs
    selective = layer_activations(shape, Layout(1, 1, 8, 1, 1, Recompute.SELECTIVE))
    assert 1 - selective / split == pytest.approx(0.70, abs=0.01)
