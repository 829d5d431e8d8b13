"""What a move gains of what the same change by hand gains.

`python -m benchmarks.moves [--move NAME] [--epochs N] [--rounds N]`: three scripts for each move,
each run plain, with the move, and with the change made by hand, by turns. `loader_reuse`: scripts
that make their DataLoader anew in each epoch; by hand it is made once (`persistent_workers=True`).
`async_checkpoint`: scripts that save at the end of each epoch; by hand the state is copied, and a
thread writes it to another name and renames it. Ratios are medians over the rounds of the seconds
an epoch takes, the first one left out; `part` is the move's share of the gain by hand, in seconds,
and `cpu` the process's CPU seconds over those of the plain script.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks import record

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
Case = dict[str, object]
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
}
WAYS = ("plain", "move", "by hand")


def run(folder: Path, move: str, case: Case, way: str, epochs: int) -> tuple[float, float, str]:
    """Seconds and CPU seconds an epoch, and the last loss."""
    script = folder / "train.py"
    script.write_text(MOVES[move][0].format(**case, epochs=epochs, hoisted=way == "by hand"))
    command = [sys.executable, str(script)]
    if way == "move":
        recipe = folder / "hotlap.toml"
        recipe.write_text(f"[techniques.{move}]\n")
        command = [sys.executable, "-m", "hotlap", "run", "--recipe", str(recipe), *command]
    out = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    line = next((x for x in out.stdout.splitlines() if x.startswith("RESULT")), "")
    if not line:
        raise SystemExit(f"{way} failed:\n{out.stdout}{out.stderr}")
    _, seconds, used, loss = line.split()
    return float(seconds), float(used), loss


def main() -> None:
    """Run all cases of a move, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--move", choices=list(MOVES), default="loader_reuse")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows, summary = [], {}
    with tempfile.TemporaryDirectory() as name:
        for case, of in MOVES[options.move][1].items():
            seconds: dict[str, list[float]] = {way: [] for way in WAYS}
            used: dict[str, list[float]] = {way: [] for way in WAYS}
            losses: dict[str, set[str]] = {way: set() for way in WAYS}
            for _ in range(options.rounds):
                for way in WAYS:
                    took, cpu, loss = run(Path(name), options.move, of, way, options.epochs)
                    seconds[way].append(took)
                    used[way].append(cpu)
                    losses[way].add(loss)
            plain, move, hand = (median(seconds[way]) for way in WAYS)
            rows.append({"case": case, "seconds": seconds, "cpu_seconds": used})
            summary[case] = {
                "move": round(plain / move, 3),
                "by hand": round(plain / hand, 3),
                "part": round((plain - move) / (plain - hand), 3),
                "cpu": {way: round(median(used[way]) / median(used["plain"]), 3) for way in WAYS},
                "bitwise": losses["plain"] == losses["move"] and len(losses["plain"]) == 1,
            }
    name = f"moves-{options.move.replace('_', '-')}"
    record.write(name, " ".join(["python -m benchmarks.moves", *sys.argv[1:]]), rows, summary)


if __name__ == "__main__":
    main()
