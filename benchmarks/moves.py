"""What a move gains of what the same change by hand gains.

`python -m benchmarks.moves [--move NAME] [--case NAME] [--epochs N] [--rounds N]`: three scripts
for each move, each run plain, with the move, and with the change made by hand. The three take turns
in each round, in another order each time, so that a slow minute does not count for one of them.

`loader_reuse`: scripts that make their DataLoader anew in each epoch; by hand it is made once
(`persistent_workers=True`). `async_checkpoint`: scripts that save at the end of each epoch; by hand
the state is copied, and a thread writes it to another name and renames it. `deferred_logging`:
scripts that print numbers of each step; by hand each is copied to the CPU without waiting and
printed a step later. It pays only where reading a number waits for a GPU: without one it is not
measured.

Times are seconds an epoch, the first one left out. Ratios are medians over the rounds of the plain
script's time over the other's in the same round, with the least and the greatest. `part` is the
move's share of what the change by hand saves, in seconds, over all rounds, with the least and the
greatest without one of them; `cpu` is the process's CPU seconds over those of the plain script.
`verdict` holds `part` against the bar of 0.9, where the change by hand saves at least 3 %.
With the defaults a calm machine of 2 cores takes about 10 minutes for `loader_reuse` and 15 for
`async_checkpoint`.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch

from benchmarks import record

BAR, WORTH = 0.9, 1.03

LOADER_REUSE = """
import sys, time, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

SIZE, WORKERS, EPOCHS, HOISTED, KIND = {size}, {workers}, {epochs}, {hoisted}, {kind!r}


class Drawn(Dataset):
    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        return torch.randn(64) + index % 10, index % 10


def main():
    torch.manual_seed(0)
    tensors = TensorDataset(torch.randn(SIZE, 64), torch.arange(SIZE) % 10)
    data = Drawn() if KIND == "drawn" else tensors
    width = 1024 if KIND == "wide" else 256
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    keep = {{"persistent_workers": True}} if HOISTED else {{}}
    make = lambda: DataLoader(data, 64, shuffle=True, num_workers=WORKERS, **keep)
    loader = make()
    for epoch in range(EPOCHS):
        if epoch == 1:
            began, used = time.perf_counter(), time.process_time()
        if not HOISTED:
            loader = make()
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    took = (time.perf_counter() - began, time.process_time() - used)
    print("RESULT", *(x / (EPOCHS - 1) for x in took), loss.item().hex())


if __name__ == "__main__":
    main()
"""
ASYNC_CHECKPOINT = """
import copy, os, threading, time, torch
from torch import nn

WIDTH, DEPTH, STEPS, FILES = {width}, {depth}, {steps}, {files}
EPOCHS, HOISTED = {epochs}, {hoisted}
writing = []


def save(state, path):
    if not HOISTED:
        return torch.save(state, path)
    state = copy.deepcopy(state)

    def write():
        torch.save(state, path + ".partial")
        os.replace(path + ".partial", path)

    thread = threading.Thread(target=write)
    thread.start()
    writing.append(thread)


torch.manual_seed(0)
torch.set_num_threads(1)
layers = [layer for _ in range(DEPTH) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
model = nn.Sequential(*layers, nn.Linear(WIDTH, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
for epoch in range(EPOCHS):
    if epoch == 1:
        began, used = time.perf_counter(), time.process_time()
    for _ in range(STEPS):
        x, y = torch.randn(64, WIDTH), torch.randint(0, 10, (64,))
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for thread in writing:
        thread.join()
    writing.clear()
    save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, "last.pt")
    if FILES > 1:
        save(model.state_dict(), f"epoch-{{epoch % 2}}.pt")
for thread in writing:
    thread.join()
os.stat("last.pt")
took = (time.perf_counter() - began, time.process_time() - used)
print("RESULT", *(x / (EPOCHS - 1) for x in took), loss.item().hex())
"""
DEFERRED_LOGGING = """
import logging, sys, time, torch
from torch import nn

WIDTH, DEPTH, STEPS, KIND = {width}, {depth}, {steps}, {kind!r}
EPOCHS, HOISTED = {epochs}, {hoisted}
CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.INFO)
log = logging.getLogger("train")


def copied(*tensors):
    host = [tensor.detach().to("cpu", non_blocking=True, copy=True) for tensor in tensors]
    if not CUDA:
        return host, None
    done = torch.cuda.Event()
    done.record()
    return host, done


def write(step, host, done):
    if done is not None:
        done.synchronize()
    if KIND == "print":
        print(f"step {{step}} loss {{host[0].item():.6f}}")
    elif KIND == "sum":
        print(f"step {{step}} loss {{host[0].item() + 0.01 * host[1].item():.6f}}")
    else:
        log.info("step %d loss %.6f accuracy %.3f", step, host[0].item(), host[1].item())


torch.manual_seed(0)
layers = [layer for _ in range(DEPTH) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
model = nn.Sequential(*layers, nn.Linear(WIDTH, 10)).to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x, y = torch.randn(64, WIDTH, device=DEVICE), torch.randint(0, 10, (64,), device=DEVICE)
waiting = None
for epoch in range(EPOCHS):
    if epoch == 1:
        if CUDA:
            torch.cuda.synchronize()
        began, used = time.perf_counter(), time.process_time()
    for step in range(STEPS):
        out = model(x)
        loss = nn.functional.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right = (out.argmax(1) == y).float().mean()
        if HOISTED:
            if waiting is not None:
                write(*waiting)
            waiting = (step, *copied(loss, right))
        elif KIND == "print":
            print(f"step {{step}} loss {{loss.item():.6f}}")
        elif KIND == "sum":
            print(f"step {{step}} loss {{loss.item() + 0.01 * right.item():.6f}}")
        else:
            log.info("step %d loss %.6f accuracy %.3f", step, loss.item(), right.item())
if HOISTED:
    write(*waiting)
if CUDA:
    torch.cuda.synchronize()
took = (time.perf_counter() - began, time.process_time() - used)
print("RESULT", *(x / (EPOCHS - 1) for x in took), loss.item().hex())
"""
Case = dict[str, object]
Round = dict[str, "Epochs"]
WAYS = ("plain", "move", "by hand")
MOVES: dict[str, tuple[str, dict[str, Case]]] = {
    "loader_reuse": (
        LOADER_REUSE,
        {
            "in memory": {"size": 1024, "workers": 2, "kind": "tensors"},
            "random samples": {"size": 1024, "workers": 2, "kind": "drawn"},
            "wide model": {"size": 2048, "workers": 1, "kind": "wide"},
        },
    ),
    "async_checkpoint": (
        ASYNC_CHECKPOINT,
        {
            "model and optimizer": {"width": 1024, "depth": 4, "steps": 10, "files": 1},
            "two files": {"width": 1024, "depth": 4, "steps": 15, "files": 2},
            "large model": {"width": 2048, "depth": 4, "steps": 8, "files": 1},
        },
    ),
    "deferred_logging": (
        DEFERRED_LOGGING,
        {
            "print": {"width": 512, "depth": 12, "steps": 200, "kind": "print"},
            "sum of two": {"width": 512, "depth": 24, "steps": 100, "kind": "sum"},
            "logger": {"width": 1024, "depth": 12, "steps": 200, "kind": "logger"},
        },
    ),
}
NEEDS_CUDA = {
    "deferred_logging": "it pays only where reading a number waits for a GPU, and there is none"
}


@dataclass(frozen=True)
class Epochs:
    """Seconds and CPU seconds an epoch, and what the run printed and its last loss, as a digest."""

    seconds: float
    cpu: float
    said: str


def run(folder: Path, move: str, case: Case, way: str, epochs: int) -> Epochs:
    """One run of a script, in one of the three ways."""
    script = folder / "train.py"
    script.write_text(MOVES[move][0].format(**case, epochs=epochs, hoisted=way == "by hand"))
    command = [sys.executable, str(script)]
    if way == "move":
        recipe = folder / "hotlap.toml"
        recipe.write_text(f"[techniques.{move}]\n")
        command = [sys.executable, "-m", "hotlap", "run", "--recipe", str(recipe), *command]
    out = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    lines = out.stdout.splitlines()
    line = next((x for x in lines if x.startswith("RESULT")), "")
    if not line:
        raise SystemExit(f"{way} failed:\n{out.stdout}{out.stderr}")
    _, seconds, used, loss = line.split()
    said = "\n".join([*(x for x in lines if x != line), loss])
    return Epochs(float(seconds), float(used), hashlib.sha256(said.encode()).hexdigest())


def by_turns(folder: Path, move: str, case: Case, epochs: int, rounds: int) -> list[Round]:
    """The three ways in each round, in another order each time."""
    found = []
    for number in range(rounds):
        order = [WAYS[(number + i) % len(WAYS)] for i in range(len(WAYS))]
        found.append({way: run(folder, move, case, way, epochs) for way in order})
        print(f"  round {number + 1}: {_line(found[-1])}", flush=True)
    return found


def _line(one: Round) -> str:
    return ", ".join(f"{way} {one[way].seconds:.3f} s" for way in WAYS)


def judged(rounds: Sequence[Round]) -> dict[str, object]:
    """The figures of a case: the ratios, the move's part of the gain, and what the bar says."""
    ratios = {way: [one["plain"].seconds / one[way].seconds for one in rounds] for way in WAYS}
    said = {one[way].said for one in rounds for way in ("plain", "move")}
    part = _part(rounds)
    others = [_part([*rounds[:i], *rounds[i + 1 :]] or rounds) for i in range(len(rounds))]
    if len(said) > 1:
        verdict = "the move changes what the script computes or prints"
    elif median(ratios["by hand"]) < WORTH:
        verdict = "by hand the change saves nothing here: no part to measure"
    else:
        verdict = _against_bar(min(others), max(others))
    return {
        **{way: _spread(ratios[way]) for way in ("move", "by hand")},
        "part": [round(x, 3) for x in (part, min(others), max(others))],
        "cpu": {way: round(median(one[way].cpu / one["plain"].cpu for one in rounds), 3)
                for way in WAYS},
        "bitwise": len(said) == 1,
        "verdict": verdict,
    }  # fmt: skip


def _against_bar(low: float, high: float) -> str:
    if low < BAR <= high:
        return "inconclusive: one round decides; run more of them, or on a calmer machine"
    return f"{'meets' if low >= BAR else 'misses'} the bar of {BAR}"


def _part(rounds: Sequence[Round]) -> float:
    total = {way: sum(one[way].seconds for one in rounds) for way in WAYS}
    by_hand = total["plain"] - total["by hand"]
    return (total["plain"] - total["move"]) / by_hand if by_hand else 0.0


def _spread(values: Sequence[float]) -> list[float]:
    return [round(x, 3) for x in (median(values), min(values), max(values))]


def measure(move: str, cases: Sequence[str], epochs: int, rounds: int, command: str) -> None:
    """Run the cases of a move; the record is written after each."""
    if move in NEEDS_CUDA and not torch.cuda.is_available():
        print(f"{move}: not measured: {NEEDS_CUDA[move]}")
        return
    rows, summary = [], {}
    with tempfile.TemporaryDirectory() as name:
        for case in cases or MOVES[move][1]:
            print(f"{move}, {case}:")
            found = by_turns(Path(name), move, MOVES[move][1][case], epochs, rounds)
            rows.append({"case": case, "rounds": [
                {way: asdict(epoch) for way, epoch in one.items()} for one in found
            ]})  # fmt: skip
            summary[case] = judged(found)
            record.write(f"moves-{move.replace('_', '-')}", command, rows, summary, quiet=True)
    print(json.dumps(summary, indent=1))


def main(words: Sequence[str]) -> None:
    """Run all cases of one move, or of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--move", choices=list(MOVES), help="default: all")
    parser.add_argument("--case", action="append", default=[], help="default: all of the move")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(words)
    command = " ".join(["python -m benchmarks.moves", *words])
    for move in [options.move] if options.move else MOVES:
        measure(move, options.case, options.epochs, options.rounds, command)


if __name__ == "__main__":
    main(sys.argv[1:])
