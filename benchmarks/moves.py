"""What a move gains of what the same change by hand gains.

`python -m benchmarks.moves [--epochs N] [--rounds N]`: three scripts that make their DataLoader
anew in each epoch, each run plain, with `loader_reuse`, and with the loader made once by hand
(`persistent_workers=True`), by turns. Ratios are medians over the rounds of the seconds an epoch
takes, the first one left out; `part` is the move's share of the gain by hand, in seconds.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks import record

SCRIPT = """
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
            began = time.perf_counter()
        if not HOISTED:
            loader = make()
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print("RESULT", (time.perf_counter() - began) / (EPOCHS - 1), loss.item().hex())


if __name__ == "__main__":
    main()
"""
CASES = {
    "in memory": {"size": 1024, "workers": 2, "kind": "tensors"},
    "random samples": {"size": 1024, "workers": 2, "kind": "drawn"},
    "wide model": {"size": 2048, "workers": 1, "kind": "wide"},
}
WAYS = ("plain", "move", "by hand")


def run(folder: Path, case: dict[str, object], way: str, epochs: int) -> tuple[float, str]:
    """Seconds an epoch, and the last loss."""
    script = folder / "train.py"
    script.write_text(SCRIPT.format(**case, epochs=epochs, hoisted=way == "by hand"))
    command = [sys.executable, str(script)]
    if way == "move":
        recipe = folder / "hotlap.toml"
        recipe.write_text("[techniques.loader_reuse]\n")
        command = [sys.executable, "-m", "hotlap", "run", "--recipe", str(recipe), *command]
    out = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    line = next((x for x in out.stdout.splitlines() if x.startswith("RESULT")), "")
    if not line:
        raise SystemExit(f"{way} failed:\n{out.stdout}{out.stderr}")
    _, seconds, loss = line.split()
    return float(seconds), loss


def main() -> None:
    """Run all cases, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows, summary = [], {}
    with tempfile.TemporaryDirectory() as name:
        for case, of in CASES.items():
            seconds: dict[str, list[float]] = {way: [] for way in WAYS}
            losses: dict[str, set[str]] = {way: set() for way in WAYS}
            for _ in range(options.rounds):
                for way in WAYS:
                    took, loss = run(Path(name), of, way, options.epochs)
                    seconds[way].append(took)
                    losses[way].add(loss)
            plain, move, hand = (median(seconds[way]) for way in WAYS)
            rows.append({"case": case, "seconds": seconds})
            summary[case] = {
                "move": round(plain / move, 3),
                "by hand": round(plain / hand, 3),
                "part": round((plain - move) / (plain - hand), 3),
                "bitwise": losses["plain"] == losses["move"] and len(losses["plain"]) == 1,
            }
    record.write("moves-loader-reuse", " ".join(["python -m benchmarks.moves", *sys.argv[1:]]),
                 rows, summary)  # fmt: skip


if __name__ == "__main__":
    main()
