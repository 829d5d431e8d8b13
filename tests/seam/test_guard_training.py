# ruff: noqa: E501
"""A script like people write them: checkpoints, logs, events, resume; run bare and guarded."""

from pathlib import Path

import pytest
from guarding import make_bench

TRAIN = '''
import argparse, csv, glob, json, logging, os, shutil, sys
from pathlib import Path
import numpy as np, torch
from torch.utils.data import DataLoader, Dataset

WORKERS, TENSORBOARD = {workers}, {tensorboard}

class Lines(Dataset):
    """Reads one of the user's files per sample, and caches what it read beside it."""
    def __init__(self): self.paths = sorted(glob.glob("data/a/*.txt")) * 4
    def __len__(self): return len(self.paths)
    def __getitem__(self, i):
        text = open(self.paths[i]).read()
        os.makedirs("cache", exist_ok=True)
        np.save(f"cache/{{i}}.npy", np.float32(text or 0))
        return torch.tensor([float(np.load(f"cache/{{i}}.npy"))])

def main():
    torch.manual_seed(0)
    out = Path("runs/exp"); out.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(out / "train.log"); log = logging.getLogger("t"); log.addHandler(handler); log.setLevel("INFO")
    writer = None
    if TENSORBOARD:
        from torch.utils.tensorboard import SummaryWriter
        writer = SummaryWriter(out / "tb")
    model = torch.nn.Linear(1, 1); optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    start, best = 0, float("inf")
    if os.path.exists("runs/exp/last.pt"):
        state = torch.load("runs/exp/last.pt"); model.load_state_dict(state["model"]); start = state["epoch"] + 1
        best = torch.load(out / "best.pt")["loss"]
        print("resumed at", start)
    for epoch in range(start, start + 3):
        total = 0.0
        for x in DataLoader(Lines(), batch_size=5, num_workers=WORKERS):
            loss = (model(x) - 2 * x).square().mean(); optimizer.zero_grad(); loss.backward(); optimizer.step(); total += loss.item()
        state = {{"model": model.state_dict(), "epoch": epoch, "loss": total}}
        torch.save(state, f"runs/exp/epoch{{epoch}}.pt")
        if total < best:
            best = total; shutil.copy(f"runs/exp/epoch{{epoch}}.pt", "runs/exp/best.pt")
        torch.save(state, "runs/exp/last.tmp"); os.replace("runs/exp/last.tmp", "runs/exp/last.pt")
        for old in sorted(glob.glob("runs/exp/epoch*.pt"))[:-2]: os.remove(old)
        with open("log.txt", "a") as f: f.write(f"{{epoch}} {{total:.4f}}\\n")
        with open("metrics.csv", "a", newline="") as f: csv.writer(f).writerow([epoch, f"{{total:.4f}}"])
        log.info("epoch %d loss %.4f", epoch, total)
        if writer: writer.add_scalar("loss", total, epoch)
        np.save(out / "history.npy", np.array([epoch, total])); json.dump({{"best": best}}, open("settings.json", "w"))
        if os.path.islink("latest"): os.remove("latest")
        os.symlink(f"runs/exp/epoch{{epoch}}.pt", "latest")
        print(epoch, f"{{total:.4f}}", sorted(os.listdir("runs/exp")), torch.load("latest")["epoch"])
    if writer: writer.close()
    print(open("log.txt").read(), open("metrics.csv").read(), open(out / "train.log").read(), json.load(open("settings.json")))
    print(len(os.listdir("cache")), len(list(out.glob("tb/events*"))))

if __name__ == "__main__":
    main(); main()
'''


@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_training_with_resume_leaves_the_tree_alone(workers: int, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    said = make_bench(tmp_path).compare(TRAIN.format(workers=workers, tensorboard=not workers))
    assert "resumed at 3" in said


@pytest.mark.slow
def test_spawned_workers_share_the_view(tmp_path: Path) -> None:
    script = TRAIN.format(workers=2, tensorboard=False).replace(
        "    main(); main()", '    torch.multiprocessing.set_start_method("spawn"); main()'
    )
    make_bench(tmp_path).compare(script)
