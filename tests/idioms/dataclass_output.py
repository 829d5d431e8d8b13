"""A model that returns a dataclass, with the loss as one of its fields."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Output:
    logits: torch.Tensor
    hidden: torch.Tensor
    loss: torch.Tensor | None = None


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 24)
        self.head = nn.Linear(24, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> Output:
        hidden = torch.tanh(self.body(x))
        logits = self.head(hidden)
        loss = None if y is None else nn.functional.cross_entropy(logits, y)
        return Output(logits, hidden, loss)


def main() -> None:
    torch.manual_seed(4)
    model = Classifier()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    for step in range(15):
        x = torch.randn(32, 6)
        output = model(x, x[:, :4].argmax(1))
        optimizer.zero_grad()
        output.loss.backward()
        optimizer.step()
        print(f"{step} {output.loss.item():.6f} {output.hidden.abs().mean().item():.6f}")
    print("done")


if __name__ == "__main__":
    main()
