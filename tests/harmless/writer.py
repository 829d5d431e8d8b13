"""Writes all that a training script writes, each epoch, into folders beside itself."""

import argparse
import csv
import json
import logging
import os
import shutil
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

try:
    from torch.utils.tensorboard import SummaryWriter
except ImportError:
    SummaryWriter = None

HERE = Path(__file__).resolve().parent
CHECKPOINTS, LOGS, ARRAYS = HERE / "checkpoints", HERE / "logs", HERE / "arrays"


def set_up_logging():
    logger = logging.getLogger("writer")
    logger.setLevel(logging.INFO)
    logger.addHandler(logging.FileHandler(LOGS / "training.log"))
    return logger


def save_checkpoint(model, optimizer, epoch, is_best):
    path = CHECKPOINTS / f"epoch_{epoch:04d}.pt"
    partial = path.with_suffix(".tmp")
    torch.save(
        {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, partial
    )
    os.replace(partial, path)  # noqa: PTH105
    if is_best:
        shutil.copyfile(path, CHECKPOINTS / "best.pt")
    for old in sorted(CHECKPOINTS.glob("epoch_*.pt"))[:-2]:
        old.unlink()


def write_logs(epoch, loss, history):
    with open(HERE / "log.txt", "a") as log:
        log.write(f"epoch {epoch} loss {loss:.6f}\n")
    with open(LOGS / "metrics.csv", "a", newline="") as table:
        csv.writer(table).writerow([epoch, f"{loss:.6f}"])
    (LOGS / "history.json").write_text(json.dumps({"epochs": epoch + 1, "losses": history}))
    np.save(ARRAYS / "losses.npy", np.array(history))


def train_one_epoch(model, loader, optimizer):
    total = 0.0
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--steps-per-epoch", type=int, default=8)
    args = parser.parse_args()
    for folder in (CHECKPOINTS, LOGS, ARRAYS):
        folder.mkdir(exist_ok=True)
    logger = set_up_logging()
    board = SummaryWriter(log_dir=str(HERE / "runs" / "writer")) if SummaryWriter else None

    torch.manual_seed(0)
    x = torch.randn(64 * args.steps_per_epoch, 3, 24, 24)
    y = torch.randint(0, 10, (len(x),))
    loader = DataLoader(
        TensorDataset(x, y), batch_size=64, shuffle=True, num_workers=2, persistent_workers=True
    )
    model = nn.Sequential(
        nn.Conv2d(3, 24, 3), nn.ReLU(), nn.Conv2d(24, 24, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(384, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    best, history = float("inf"), []
    for epoch in range(args.epochs):
        loss = train_one_epoch(model, loader, optimizer)
        history.append(loss)
        save_checkpoint(model, optimizer, epoch, is_best=loss < best)
        best = min(best, loss)
        write_logs(epoch, loss, history)
        logger.info("epoch %d loss %.6f", epoch, loss)
        if board:
            board.add_scalar("loss/train", loss, epoch)
            board.flush()
        print(f"epoch {epoch} loss {loss:.6f}", flush=True)
    if board:
        board.close()


if __name__ == "__main__":
    main()
