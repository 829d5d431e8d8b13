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
ROUNDS = 15
MEMORY = """
import json, resource, sys
import torch
from hotlap.kernels import linear_cross_entropy
from hotlap.kernels.cross_entropy import reference

torch.manual_seed(0)
hidden = torch.randn(4096, 1024, requires_grad=True)
weight = (torch.randn(50257, 1024) / 32).requires_grad_()
target = torch.randint(50257, (4096,))
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
loss = (linear_cross_entropy if sys.argv[1] == "chunked" else reference)(hidden, weight, target)
loss.backward()
print(json.dumps({"form": sys.argv[1], "loss": loss.item(), "inputs": before, "peak": peak()}))
"""


def race(rounds: int) -> list[dict[str, Any]]:
    """Seconds of the formula written out, torch's own operator and ours, in turns."""
    import torch

    from hotlap.kernels import gelu, softmax

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
    found = []
    for name, functions in forms.items():
        x = torch.randn(SHAPE, requires_grad=True)
        grad = torch.randn(SHAPE)
        times: dict[str, list[float]] = {form: [] for form in functions}
        for turn in range(rounds + 1):
            for form, function in functions.items():
                started = time.perf_counter()
                torch.autograd.grad(function(x), x, grad)
                if turn:
                    times[form].append(time.perf_counter() - started)
        found.append({"operator": name, "direction": "forward and backward", "seconds": times})
    return found


def memory() -> list[dict[str, Any]]:
    """Loss and peak resident memory of one step of 4096 x 1024 by 50,257, a process each."""
    found = []
    for form in ("plain", "chunked"):
        command = [sys.executable, "-c", MEMORY, form]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    return found


def main(rounds: int = ROUNDS) -> None:
    """Measure both and write the record."""
    rows, steps = race(rounds), memory()
    summary: dict[str, Any] = {}
    for row in rows:
        ours = row["seconds"]["hotlap"]
        for form in ("by hand", "torch"):
            pairs = zip(row["seconds"][form], ours, strict=True)
            ratio = statistics.median(other / mine for other, mine in pairs)
            summary[f"{row['operator']} over {form}"] = round(ratio, 2)
    plain, chunked = steps
    summary["cross-entropy: peak over plain"] = round(chunked["peak"] / plain["peak"], 3)
    summary["cross-entropy: difference of losses"] = abs(chunked["loss"] - plain["loss"])
    record.write("kernels", COMMAND, rows + steps, summary)


if __name__ == "__main__":
    main()
