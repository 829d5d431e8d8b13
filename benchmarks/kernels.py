"""hotlap.kernels on the CPU: GELU, softmax (2000 x 3000); memory of the cross-entropy."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks import record

COMMAND = "python -m benchmarks.kernels"
SHAPE = (2000, 3000)
ROUNDS = 31
MEMORY = """
import json, sys
import torch
from hotlap.kernels import linear_cross_entropy
from hotlap.kernels.cross_entropy import reference

torch.manual_seed(0)
hidden = torch.randn(4096, 1024, requires_grad=True)
weight = (torch.randn(50257, 1024) / 32).requires_grad_()
target = torch.randint(50257, (4096,))
torch.mm(hidden[:64], weight.detach().T)  # the pools of the matrix library

def resident(name):
    line = next(line for line in open("/proc/self/status") if line.startswith(name))
    return int(line.split()[1]) * 1024

open("/proc/self/clear_refs", "w").write("5")  # forgets the peak so far
before = resident("VmRSS")
loss = (linear_cross_entropy if sys.argv[1] == "chunked" else reference)(hidden, weight, target)
loss.backward()
found = {"loss": loss.item(), "inputs": before, "peak": resident("VmHWM")}
print(json.dumps({"form": sys.argv[1], **found}))
"""


def race(rounds: int) -> list[dict[str, Any]]:
    """Seconds of the formula written out, torch's own operator and ours, in turns."""
    import torch

    from hotlap.kernels import gelu, softmax
    from hotlap.kernels.gelu import ROUTE as OF_GELU
    from hotlap.kernels.softmax import ROUTE as OF_SOFTMAX

    chosen = {
        "gelu": lambda x: OF_GELU.choice(x, "none"),
        "softmax": OF_SOFTMAX.choice,
    }

    def gelu_by_hand(x: torch.Tensor) -> torch.Tensor:
        return x * 0.5 * (1.0 + torch.erf(x / 1.41421))

    def softmax_by_hand(x: torch.Tensor) -> torch.Tensor:
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return e / e.sum(-1, keepdim=True)

    forms: dict[str, dict[str, Callable[..., torch.Tensor]]] = {
        "gelu": {"by hand": gelu_by_hand, "torch": torch.nn.functional.gelu, "hotlap": gelu},
        "softmax": {
            "by hand": softmax_by_hand,
            "torch": lambda x: torch.softmax(x, -1),
            "hotlap": softmax,
        },
    }
    for functions in forms.values():
        functions["compiled"] = torch.compile(functions["by hand"], dynamic=False)
    found = []
    for name, functions in forms.items():
        x = torch.randn(SHAPE, requires_grad=True)
        grad = torch.randn(SHAPE)
        times: dict[str, list[float]] = {form: [] for form in functions}
        for turn in range(rounds + 1):
            order = list(functions.items())
            for form, function in order if turn % 2 else reversed(order):
                started = time.perf_counter()
                torch.autograd.grad(function(x), x, grad)
                if turn:
                    times[form].append(time.perf_counter() - started)
        found.append({"operator": name, "direction": "forward and backward",
                      "chosen": chosen[name](x), "seconds": times})  # fmt: skip
    return found


def memory() -> list[dict[str, Any]]:
    """Loss and peak resident memory of one step of 4096 x 1024 by 50,257, a process each."""
    found = []
    for form in ("plain", "chunked"):
        command = [sys.executable, "-c", MEMORY, form]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    return found


def ratio(other: list[float], mine: list[float]) -> list[float]:
    """Median of the ratios of pairs, and its 95 % interval by order statistics."""
    ratios = sorted(slow / fast for slow, fast in zip(other, mine, strict=True))
    reach = round(0.98 * len(ratios) ** 0.5)  # 1.96 sqrt(n) / 2 places on either side
    middle = len(ratios) // 2
    low, high = ratios[max(middle - reach, 0)], ratios[min(middle + reach, len(ratios) - 1)]
    return [round(value, 2) for value in (statistics.median(ratios), low, high)]


def summarise(rows: list[dict[str, Any]], steps: list[dict[str, Any]]) -> dict[str, Any]:
    """How many times as fast as other forms [median, low, high]; shares of the plain peak."""
    summary: dict[str, Any] = {}
    for row in rows:
        ours = row["seconds"]["hotlap"]
        summary[f"{row['operator']}: chosen"] = row["chosen"]
        for form in ("by hand", "torch", "compiled"):
            summary[f"{row['operator']} over {form}"] = ratio(row["seconds"][form], ours)
    plain, chunked = steps
    summary["cross-entropy: peak over plain"] = round(chunked["peak"] / plain["peak"], 3)
    ours_alone, plain_alone = (step["peak"] - step["inputs"] for step in (chunked, plain))
    summary["cross-entropy: peak over plain, inputs and process aside"] = round(
        ours_alone / plain_alone, 3
    )
    summary["cross-entropy: difference of losses"] = abs(chunked["loss"] - plain["loss"])
    return summary


def main(rounds: int = ROUNDS) -> None:
    """Measure both and write the record."""
    rows, steps = race(rounds), memory()
    record.write("kernels", COMMAND, rows + steps, summarise(rows, steps))


if __name__ == "__main__":
    main()
