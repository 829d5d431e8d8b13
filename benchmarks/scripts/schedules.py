"""Train on digits, on text or on a line until stopped: `python schedules.py TASK [options]`.

Prints `val NUMBER` after every `--every` steps: the validation error (`digits`), the validation
loss (`text`), or the distance to the true weights (`line`).
"""

import argparse
from pydoc_data.topics import topics

import torch
from torch import nn
from torch.nn import functional

CONTEXT, SYMBOLS = 32, 128


class Digits:
    """scikit-learn's 8 x 8 digits and a CNN."""

    def __init__(self):
        from sklearn.datasets import load_digits

        digits = load_digits()
        order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
        images = torch.tensor(digits.images, dtype=torch.float32)[order, None] / 16
        labels = torch.tensor(digits.target)[order]
        self.train, self.rest = (images[:1400], labels[:1400]), (images[1400:], labels[1400:])
        self.model = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10),
        )  # fmt: skip

    def loss(self, size):
        chosen = torch.randint(1400, (size,))
        images, labels = self.train
        return functional.cross_entropy(self.model(images[chosen]), labels[chosen])

    def value(self):
        images, labels = self.rest
        return (self.model(images).argmax(1) != labels).float().mean().item()


class Text:
    """Characters of Python's own help, and a GRU that predicts the next one."""

    def __init__(self):
        joined = "\n".join(topics[name] for name in sorted(topics))
        codes = torch.tensor([min(ord(letter), 127) for letter in joined])
        rest = len(codes) // 10
        self.train = codes[:-rest]
        self.rest = codes[-rest:][: 256 * (CONTEXT + 1)].view(-1, CONTEXT + 1)
        self.embed, self.head = nn.Embedding(SYMBOLS, 48), nn.Linear(96, SYMBOLS)
        self.gru = nn.GRU(48, 96, batch_first=True)
        self.model = nn.ModuleList([self.embed, self.gru, self.head])

    def of(self, rows):
        logits = self.head(self.gru(self.embed(rows[:, :-1]))[0])
        return functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())

    def loss(self, size):
        starts = torch.randint(len(self.train) - CONTEXT, (size, 1))
        return self.of(self.train[starts + torch.arange(CONTEXT + 1)])

    def value(self):
        return self.of(self.rest).item()


class Line:
    """Linear regression by SGD: twice the rate takes half the steps."""

    WIDTH = 1024

    def __init__(self):
        self.true = torch.randn(self.WIDTH, 1, generator=torch.Generator().manual_seed(0))
        self.model = nn.Linear(self.WIDTH, 1, bias=False)
        self.model.weight.data.normal_()

    def loss(self, size):
        x = torch.randn(size, self.WIDTH)
        return functional.mse_loss(self.model(x), x @ self.true) / 2

    def value(self):
        return (self.model.weight.T - self.true).square().mean().item()


def scheduler(optimizer, options):
    if options.schedule == "one_cycle":
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, options.rate, options.steps)
    return torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=["digits", "text", "line"])
    parser.add_argument("--schedule", choices=["constant", "one_cycle"], default="constant")
    parser.add_argument("--optimizer", choices=["Adam", "SGD"], default="Adam")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--every", type=int, default=20)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    task = {"digits": Digits, "text": Text, "line": Line}[options.task]()
    momentum = {"momentum": 0.9} if options.optimizer == "SGD" and options.task != "line" else {}
    optimizer = getattr(torch.optim, options.optimizer)(
        task.model.parameters(), lr=options.rate, **momentum
    )
    schedule = scheduler(optimizer, options)
    for step in range(1, options.steps + 1):
        loss = task.loss(options.batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % options.every == 0:
            with torch.no_grad():
                print(f"val {task.value():.5f}", flush=True)


if __name__ == "__main__":
    main()
