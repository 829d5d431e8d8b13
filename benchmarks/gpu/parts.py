"""The parts of `benchmarks.gpu`: each a function that yields its rows one by one.

`python -m benchmarks.gpu.parts PART DEVICE SECONDS`: prints a line `ROW {...}` for each row as soon
as it is measured. On the CPU the sizes are tiny and the figures mean nothing: it is a rehearsal of
the code.
"""

import ctypes
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.techniques import WORKLOADS
from benchmarks.techniques import rows as races_of

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CUDA_SOURCE = HERE / "article.cu"
ARTICLE = (2000, 3000)
BEYOND_CACHE = (16384, 8192)
"""float32 elements of 512 MiB: more than a GPU's L2 cache, which the article's 24 MB may fit."""
REHEARSAL = (8, 24)
BLOCK_SECONDS = 0.005
"""A timed block of calls takes so long, that events and launches between blocks count little."""
ROUNDS = 15

TRAIN = [sys.executable, str(HERE / "train.py")]
HOTLAP = [sys.executable, "-m", "hotlap"]

Form = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Row:
    """What was measured under one name: the figures for the summary, and everything raw."""

    name: str
    figures: dict[str, object] = field(default_factory=dict)
    raw: object = None
    error: str = ""


@dataclass(frozen=True)
class Setting:
    """Where and how long a part measures; `deadline` on the clock of `time.monotonic`."""

    device: str
    deadline: float

    @property
    def real(self) -> bool:
        """Whether this is a measurement, not a rehearsal on the CPU."""
        return self.device == "cuda"

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()


def guarded(name: str, measure: Callable[[], Row]) -> Row:
    """The row, or the error in its place: the rows after it are measured all the same."""
    try:
        return measure()
    except subprocess.TimeoutExpired as error:
        return Row(name, error=f"not complete after {error.timeout:.0f} s")
    except Exception as error:
        return Row(name, error=f"{type(error).__name__}: {error}"[:2000])


# The machine's limits, which the other figures are held against


def peaks(setting: Setting) -> Iterator[Row]:
    """GEMM and copy limits, by hotlap's own measurement."""
    from hotlap.core.peaks import measure

    found = measure(sys.executable)
    limits = found.devices["cuda" if setting.real else "cpu"]
    yield Row("limits", asdict(limits) | {"torch": found.torch}, asdict(found))
    if setting.real:
        yield guarded("driver", _driver)


def _driver() -> Row:
    names = "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit"
    command = ["nvidia-smi", f"--query-gpu={names}", "--format=csv,noheader"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    properties = torch.cuda.get_device_properties(0)
    return Row("driver", {"nvidia-smi": said.strip(), "l2_bytes": properties.L2_cache_size})


# The article's table: one operator, its forms by turns


def article(setting: Setting) -> Iterator[Row]:
    """GELU and softmax: eager, scripted, compiled, torch's own, Triton, CUDA C++; by turns."""
    native = _cuda_library() if setting.real else None
    for shape in (ARTICLE, BEYOND_CACHE) if setting.real else (REHEARSAL,):
        for name in ("gelu", "softmax"):
            forms = _forms(setting, name, native)
            for backward in (False, True):
                direction = "forward and backward" if backward else "forward"
                label = f"{name} {shape[0]} x {shape[1]} {direction}"
                yield guarded(label, partial(_race, setting, label, forms, shape, backward))


def gelu_by_hand(x: Tensor) -> Tensor:
    """The formula, an operation at a time."""
    return x * 0.5 * (1.0 + torch.erf(x / 1.41421))


def softmax_by_hand(x: Tensor) -> Tensor:
    """The formula, an operation at a time."""
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def _forms(setting: Setting, name: str, native: ctypes.CDLL | None) -> dict[str, Form]:
    from hotlap.kernels import gelu, softmax

    by_hand = {"gelu": gelu_by_hand, "softmax": softmax_by_hand}[name]
    ours = {"gelu": gelu, "softmax": softmax}[name]
    backend = "inductor" if setting.real else "eager"  # the rehearsal compiles no code
    forms: dict[str, Form] = {
        "eager": by_hand,
        "script": torch.jit.script(by_hand),
        "compile": torch.compile(by_hand, dynamic=False, backend=backend),
        "torch": {"gelu": torch.nn.functional.gelu, "softmax": lambda x: torch.softmax(x, -1)}[
            name
        ],
        "triton": _triton(ours),
        "hotlap": ours,
    }
    if native is not None:
        forms["cuda"] = _cuda_form(native, name)
    return forms


def _triton(function: Form) -> Form:
    from hotlap.kernels import pinned

    def run(x: Tensor) -> Tensor:
        with pinned("*", "triton"):
            return function(x)

    return run


def nvcc() -> str:
    """The CUDA compiler: of the system, or of PyPI's nvidia-cuda-nvcc.

    Raises:
        FileNotFoundError: there is none.
    """
    spec = find_spec("nvidia")
    folders = (spec and spec.submodule_search_locations) or ()
    wheels = [str(p) for folder in folders for p in Path(folder).glob("cu*/bin/nvcc")]
    found = shutil.which("nvcc") or next(iter(wheels), None)
    if found is None:
        raise FileNotFoundError("no nvcc: pip install nvidia-cuda-nvcc")
    return found


def _cuda_library() -> ctypes.CDLL | None:
    target = Path(tempfile.mkdtemp(prefix="hotlap-gpu-")) / "article.so"
    command = [nvcc(), "-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC"]
    done = subprocess.run(
        [*command, str(CUDA_SOURCE), "-o", str(target)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(f"article.cu does not compile: {done.stderr}", file=sys.stderr)
        return None
    return ctypes.CDLL(str(target))


def _cuda_form(library: ctypes.CDLL, name: str) -> Form:
    function = getattr(library, name)
    pointer, size = ctypes.c_void_p, ctypes.c_long
    function.argtypes, function.restype = [pointer, pointer, size, size, pointer], ctypes.c_int

    def run(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        stream = torch.cuda.current_stream().cuda_stream
        if code := function(x.data_ptr(), out.data_ptr(), *x.shape, stream):
            raise RuntimeError(f"{name} in CUDA C++ returned error {code}")
        return out

    return run


def _race(
    setting: Setting, label: str, forms: dict[str, Form], shape: tuple[int, ...], backward: bool
) -> Row:
    x = torch.randn(shape, device=setting.device, requires_grad=backward)
    grad = torch.randn_like(x)
    exact = forms["eager"](x.detach().double())
    calls: dict[str, Callable[[], object]] = {}
    errors: dict[str, object] = {}
    for form, function in forms.items():
        if form == "cuda" and backward:
            continue
        try:
            for _ in range(4):  # the scripted form is fused in its first calls
                off = (function(x).detach().double() - exact).abs().max().item()
            calls[form] = _call(function, x, grad if backward else None)
            calls[form]()
            errors[form] = off
        except Exception as error:
            errors[form] = f"{type(error).__name__}: {error}"[:500]
    times = _by_turns(setting, calls)
    micro = {form: round(1e6 * statistics.median(found), 2) for form, found in times.items()}
    figures: dict[str, object] = {"microseconds": micro}
    if setting.real:
        figures["device_microseconds"] = {form: _replayed(call) for form, call in calls.items()}
    moved = x.nbytes * (5 if backward else 2)
    return Row(
        label, figures, {"seconds": times, "largest_difference": errors, "least_bytes": moved}
    )


def _replayed(call: Callable[[], object]) -> float | str:
    """Microseconds of a call without Python and launches: calls captured in a CUDA graph."""
    calls = 20
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                call()
        replay = Setting("cuda", 0.0)
        found = [_block(replay, graph.replay, 5) / calls for _ in range(ROUNDS)]
        return round(1e6 * statistics.median(found), 2)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]


def _call(function: Form, x: Tensor, grad: Tensor | None) -> Callable[[], object]:
    if grad is not None:
        return lambda: torch.autograd.grad(function(x), x, grad)

    def forward() -> Tensor:
        with torch.no_grad():
            return function(x)

    return forward


def _by_turns(setting: Setting, calls: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Seconds of a call, one figure for each form and round; the order turns."""
    repeats = {}
    for form, call in calls.items():
        once = min(_block(setting, call, 1) for _ in range(3))
        repeats[form] = max(1, min(500, round(BLOCK_SECONDS / once))) if setting.real else 1
    times: dict[str, list[float]] = {form: [] for form in calls}
    for turn in range(ROUNDS if setting.real else 2):
        for form in list(calls) if turn % 2 else reversed(calls):
            times[form].append(_block(setting, calls[form], repeats[form]))
    return times


def _block(setting: Setting, call: Callable[[], object], repeats: int) -> float:
    if not setting.real:
        began = time.perf_counter()
        call()
        return time.perf_counter() - began
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(repeats):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3 / repeats


# Each shipped operator through `hotlap kernel check`

OPERATORS = {
    "gelu": """
from hotlap.kernels import gelu as kernel
from hotlap.kernels.gelu import reference as formula
def reference(x): return formula(x)
""",
    "gelu tanh": """
from hotlap.kernels import gelu
from hotlap.kernels.gelu import reference as formula
def kernel(x): return gelu(x, "tanh")
def reference(x): return formula(x, "tanh")
""",
    "softmax": """
import torch
from hotlap.kernels import softmax as kernel
def reference(x): return torch.softmax(x, -1)
""",
    "swiglu": """
from hotlap.kernels import swiglu as kernel
from hotlap.kernels.swiglu import reference
""",
    "layer norm": """
import torch
from hotlap.kernels import layer_norm as kernel
from hotlap.kernels.norm import reference as formula
def reference(x, weight, bias): return formula(x, weight, bias, 1e-5, True)
def inputs(rows, columns, dtype, generator):
    shapes = (rows, columns), (columns,), (columns,)
    return [torch.randn(*shape, dtype=dtype, generator=generator) for shape in shapes]
""",
    "RMS norm": """
import torch
from hotlap.kernels import rms_norm
from hotlap.kernels.norm import reference as formula
def kernel(x, weight): return rms_norm(x, weight, 1e-5)
def reference(x, weight): return formula(x, weight, None, 1e-5, False)
def inputs(rows, columns, dtype, generator):
    shapes = (rows, columns), (columns,)
    return [torch.randn(*shape, dtype=dtype, generator=generator) for shape in shapes]
""",
    "rotary": """
import torch
from hotlap.kernels import rotary
from hotlap.kernels.rotary import angles, reference as formula
def tables(x): return [t.to(x.device) for t in angles(x.shape[-2], x.shape[-1])]
def kernel(x): return rotary(x, *tables(x))
def reference(x): return formula(x, *(t.to(x.dtype) for t in tables(x)))
def inputs(rows, columns, dtype, generator):
    return [torch.randn(rows, 2 * columns, dtype=dtype, generator=generator)]
""",
}


def check(setting: Setting) -> Iterator[Row]:
    """`hotlap kernel check` of each shipped operator, four at a time: it is not timed."""
    names = list(OPERATORS) if setting.real else ["softmax"]
    os.environ["HOTLAP_IMPLEMENTATIONS"] = "*=triton" if setting.real else "*=torch"
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as pool:
        of = Path(folder)
        yield from pool.map(lambda name: guarded(name, partial(_checked, of, name)), names)


def _checked(folder: Path, name: str) -> Row:
    from hotlap.kernel_check.verdict import check as checked

    file = folder / f"{name.replace(' ', '_').lower()}_operator.py"
    file.write_text(OPERATORS[name])
    verdict = checked(str(file), "none")
    failed = [row["check"] for row in verdict.outcomes if not row["passed"]]
    figures: dict[str, object] = {"passed": verdict.passed, "failed": failed}
    return Row(name, figures | {"device": verdict.device}, verdict.document())


# Cross-entropy of hidden states: peak memory


def cross_entropy(setting: Setting) -> Iterator[Row]:
    """Peak memory, loss and seconds of one step of 4096 x 1024 by 50,257, plain and in chunks."""
    from hotlap.kernels import linear_cross_entropy
    from hotlap.kernels.cross_entropy import reference

    sizes = (4096, 1024, 50257) if setting.real else (64, 16, 100)
    for dtype in (torch.float32, torch.bfloat16):
        label = f"{sizes[0]} x {sizes[1]} by {sizes[2]} {str(dtype).removeprefix('torch.')}"
        forms = {"plain": reference, "chunked": linear_cross_entropy}
        yield guarded(label, partial(_losses, setting, label, forms, sizes, dtype))


def _losses(
    setting: Setting,
    label: str,
    forms: dict[str, Callable[..., Tensor]],
    sizes: tuple[int, int, int],
    dtype: torch.dtype,
) -> Row:
    torch.manual_seed(0)
    tokens, width, words = sizes
    hidden = torch.randn(tokens, width, device=setting.device, dtype=dtype, requires_grad=True)
    weight = torch.randn(words, width, device=setting.device, dtype=dtype) / 32
    weight.requires_grad_()
    target = torch.randint(words, (tokens,), device=setting.device)
    found = {}
    for name, form in forms.items():
        torch.autograd.grad(form(hidden, weight, target), (hidden, weight))  # pools, kernels
        if setting.real:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        loss = form(hidden, weight, target)
        torch.autograd.grad(loss, (hidden, weight))
        value = loss.item()  # waits for the device
        peak = torch.cuda.max_memory_allocated() if setting.real else 0
        found[name] = {"loss": value, "peak_bytes": peak, "seconds": time.perf_counter() - began}
    inputs = hidden.nbytes + weight.nbytes + target.nbytes
    plain, chunked = found["plain"], found["chunked"]
    figures: dict[str, object] = {"loss_difference": abs(plain["loss"] - chunked["loss"])}
    if setting.real:
        figures["peak_over_plain"] = round(chunked["peak_bytes"] / plain["peak_bytes"], 3)
    return Row(label, figures, found | {"inputs_bytes": inputs})


# The rows of `hotlap bench`


def bench(setting: Setting) -> Iterator[Row]:
    """Each row that a GPU changes, one launch; those that time does not reach are named."""
    from hotlap.bench.rows import ROWS
    from hotlap.bench.run import Finding, Plan, measure
    from hotlap.core.machine import detect

    machine = detect()
    wanted = [row for row in ROWS if row.gpus <= 1 and not row.cpu_only]
    # those that only a GPU can run come first; trainings to a target last: they are long
    wanted.sort(key=lambda row: (-row.gpus, row.measure.value == "time to target"))
    for row in wanted if setting.real else [row for row in ROWS if row.id == "checkpointing"]:
        if setting.left < 15:
            yield Row(row.id, error="not run: the part's time is up")
            continue
        found = measure(row, machine, Plan(1, 4.0 if setting.real else 0.1))
        document = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in found.document().items()
        }
        names = ("finding", "ratio", "low", "high", "device")
        error = found.note if found.finding is Finding.NOT_RUN else ""
        yield Row(row.id, {name: document[name] for name in names}, document, error)


# Moves on a whole training

HALF = '[techniques.mixed_precision]\ndtype = "bfloat16"\n'
MOVES = {
    "tf32": "[techniques.tf32]\n",
    "mixed_precision": HALF,
    "mixed_precision, fused_optimizer": HALF + "[techniques.fused_optimizer]\n",
    "mixed_precision, fused_pointwise": HALF + '[techniques.fused_pointwise]\nmode = "default"\n',
    "mixed_precision, cuda_graphs": HALF + "[techniques.cuda_graphs]\n",
    "fused_cross_entropy": "[techniques.fused_cross_entropy]\n",
    "eight_bit_optimizer": "[techniques.eight_bit_optimizer]\n",
    "pinned_memory, device_prefetch": "[techniques.pinned_memory]\n[techniques.device_prefetch]\n",
    "mixed_precision, fp8_linear": HALF + "[techniques.fp8_linear]\n",
    "mixed_precision, int8_training": HALF + "[techniques.int8_training]\n",
}


def moves(setting: Setting) -> Iterator[Row]:
    """A small GPT's training plain, with each move, and plain again: step times, memory, losses."""
    plain = _trained(setting, "plain", "")
    yield plain
    for name, recipe in MOVES.items():
        if not setting.real and name != "eight_bit_optimizer":
            continue
        if setting.left < 15:
            yield Row(name, error="not run: the part's time is up")
            continue
        yield guarded(name, partial(_trained, setting, name, recipe, plain))
    yield guarded("plain again", partial(_trained, setting, "plain again", "", plain))


def _trained(setting: Setting, name: str, recipe: str, plain: Row | None = None) -> Row:
    steps, width = (60, 1024) if setting.real else (10, 16)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "hotlap.toml").write_text(recipe)
        prefix = [*HOTLAP, "run"] if recipe else []
        raw, _ = _train(setting, prefix, [str(steps), str(width)], folder)
    if idle := re.search(r".* did not take hold: .*", raw["said"]):
        raise RuntimeError(idle[0])
    step = statistics.median(raw["seconds"][1:])
    figures: dict[str, object] = {"step_seconds": step, "peak_bytes": raw["peak_bytes"]}
    figures["last_loss"] = raw["losses"][-1]
    if plain is not None:
        figures["times_as_fast"] = round(float(str(plain.figures["step_seconds"])) / step, 3)
    return Row(name, figures, raw)


def _train(
    setting: Setting, prefix: list[str], words: list[str], folder: str
) -> tuple[dict[str, Any], str]:
    """What the training tells, and what its command printed."""
    result = Path(folder) / "result.json"
    done = subprocess.run(
        [*prefix, *TRAIN, *words, "--out", str(result)], cwd=folder, capture_output=True,
        text=True, check=False, timeout=max(setting.left, 1), env=_environment(),
    )  # fmt: skip
    if not result.exists():
        raise RuntimeError(f"exit status {done.returncode}: {done.stderr[-1500:]}")
    found = json.loads(result.read_text()) | {"said": done.stderr[-2000:]}
    result.unlink()
    return found, done.stdout


def _environment() -> dict[str, str]:
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


# What a profile costs and how exact it is, and how right races are

TURNS = 2


def profile(setting: Setting) -> Iterator[Row]:
    """Two sizes of the small GPT plain and below `hotlap profile`, by turns; phases by hand."""
    for width, steps in ((1024, 100), (256, 400)) if setting.real else ((16, 40),):
        label = f"width {width}"
        yield guarded(label, partial(_profiled, setting, label, [str(steps), str(width)]))


def _profiled(setting: Setting, label: str, words: list[str]) -> Row:
    plain, under, documents = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        verb = [*HOTLAP, "profile", "--steps", "all", "--json", "--writable", folder]
        for _ in range(TURNS):
            plain.append(_train(setting, [], words, folder)[0])
            raw, said = _train(setting, verb, words, folder)
            under.append(raw)
            documents.append(json.loads(said))
        by_hand = _train(setting, [], [*words, "--events"], folder)[0].get("phases")
    costs = [_late(b) / _late(a) for a, b in zip(plain, under, strict=True)]
    figures: dict[str, object] = {
        "step_seconds": _late(plain[0]),
        "cost": [round(cost, 4) for cost in costs],
        "phases": {row["name"]: row["mean"] for row in documents[0]["phases"]},
        "phases by hand": by_hand,
        "waits": documents[0]["starved"],
    }
    return Row(label, figures, {"plain": plain, "under": under, "profiles": documents})


def _late(raw: dict[str, Any]) -> float:
    """Seconds a step by the later half of the blocks."""
    seconds = raw["seconds"]
    return statistics.median(seconds[len(seconds) // 2 :])


def races(setting: Setting) -> Iterator[Row]:
    """The small GPT raced against itself, and against one with a layer more."""
    width = "256" if setting.real else "16"
    plain, longer = ["10000", width], ["10000", width, "--layers", "5"]
    yield guarded("a layer more, alone", partial(_alone, setting, width))
    pairs = {"itself": plain, "itself again": plain, "a layer more": longer}
    seconds = max(setting.left / len(pairs) - 8, 5)  # both start
    for name, other in pairs.items():
        yield guarded(name, partial(_raced, name, plain, other, seconds))


def _alone(setting: Setting, width: str) -> Row:
    """What the layer comes to in processes that run alone."""
    words = ["400" if setting.real else "20", width]
    with tempfile.TemporaryDirectory() as folder:
        found = [
            [_train(setting, [], [*words, *more], folder)[0] for more in ([], ["--layers", "5"])]
            for _ in range(TURNS)
        ]
    ratios = [round(_late(longer) / _late(plain), 4) for plain, longer in found]
    return Row("a layer more, alone", {"ratios": ratios}, found)


def _raced(name: str, plain: list[str], other: list[str], seconds: float) -> Row:
    words = ["race", "--json", "--budget", f"{seconds:.0f}s", *TRAIN, *plain, "--", *TRAIN, *other]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*HOTLAP, *words], cwd=folder, capture_output=True, text=True, check=False,
            env=_environment(),
        )  # fmt: skip
    if done.returncode not in {0, 1}:
        raise RuntimeError(f"exit status {done.returncode}: {done.stderr[-1500:]}")
    document = json.loads(done.stdout)
    estimate = document["estimate"]
    said = {key: document[key] for key in ("verdict", "unit", "launches", "seconds")}
    ratio = {key: estimate[key] for key in ("ratio", "low", "high", "pairs")}
    return Row(name, said | ratio, document)


# A tune, and the tests


def tune(setting: Setting) -> Iterator[Row]:
    """`hotlap tune` of the small GPT; the rehearsal tunes the digits example."""
    name, script = "digits", [str(WORKLOADS["digits"])]
    if setting.real:
        name, script = "gpt", [*TRAIN[1:], "2000", "1024"]
    budget = max(20, round(setting.left - 8))
    yield guarded(name, partial(_tuned, name, script, budget, setting.left))


def _tuned(name: str, script: list[str], budget: int, left: float) -> Row:
    words = ["tune", "--json", "--budget", f"{budget}s", sys.executable, *script]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*HOTLAP, *words], cwd=folder, capture_output=True, text=True,
            check=False, timeout=max(left, 1), env=_environment(),
        )  # fmt: skip
    if done.returncode not in {0, 1}:
        raise RuntimeError(f"exit status {done.returncode}: {done.stderr[-1500:]}")
    document = json.loads(done.stdout)
    told = ("headline", "confirmed", "chosen", "recipe", "seconds", "notes", "phases")
    said = {key: document[key] for key in told}
    figures: dict[str, object] = {"headline": said["headline"], "budget": budget}
    return Row(name, figures, said | {"races": races_of(document)})


def tests(setting: Setting) -> Iterator[Row]:
    """`pytest -m gpu`; the rehearsal only collects them."""
    files = sorted(p for p in (ROOT / "tests").rglob("test_*.py") if "mark.gpu" in p.read_text())
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-p", "no:cacheprovider"]
    command += ["--continue-on-collection-errors"]
    command += ["-rfE", "--tb=line"] if setting.real else ["--collect-only"]
    command += map(str, files if setting.real else files[:1])
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=_environment()
    )
    counts = {
        word: int(number)
        for number, word in re.findall(
            r"(\d+) (passed|failed|skipped|error|errors|deselected)", done.stdout
        )
    }
    good = done.returncode in {0, 5}
    error = "" if good else f"exit status {done.returncode}"
    yield Row("pytest -m gpu", dict(counts), (done.stdout + done.stderr)[-8000:], error)


MEASURED = (peaks, article, cross_entropy, check, moves, bench, profile, races, tune, tests)
PARTS: dict[str, Callable[[Setting], Iterator[Row]]] = {part.__name__: part for part in MEASURED}


def main() -> None:
    """Run one part."""
    name, device, seconds = sys.argv[1:]
    if device != "cuda":
        os.environ["TRITON_INTERPRET"] = "1"
    for row in PARTS[name](Setting(device, time.monotonic() + float(seconds))):
        print("ROW", json.dumps(asdict(row)), flush=True)


if __name__ == "__main__":
    main()
