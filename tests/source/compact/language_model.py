"""A language model without a loader: slices of one tensor, an update by hand."""

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Model(nn.Module):
    def __init__(self, words, width, hidden, layers):
        super().__init__()
        self.encoder = nn.Embedding(words, width)  # found: odd_dimension
        self.rnn = nn.LSTM(width, hidden, layers)
        self.decoder = nn.Linear(hidden, words)  # found: odd_dimension

    def forward(self, x, hidden):
        out, hidden = self.rnn(self.encoder(x), hidden)
        return self.decoder(out), hidden


model = Model(33278, 200, 200, 2).to(device)
criterion = nn.CrossEntropyLoss()
lr = 20.0


def detach(states):
    return tuple(state.detach() for state in states)


def train(data):
    total, hidden = 0.0, None
    for i in range(0, data.size(0) - 1, 35):  # found: full_precision_training, uncompiled_model
        rows, targets = data[i : i + 35], data[i + 1 : i + 36]
        model.zero_grad()
        hidden = detach(hidden) if hidden is not None else None
        output, hidden = model(rows, hidden)
        loss = criterion(output.flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():  # found: update_loop
            p.data.add_(p.grad, alpha=-lr)
        total += loss.item()  # found: item_in_step
    return total


best = None
for epoch in range(40):
    worth = train(words.to(device))
    if best is None or worth < best:
        best = worth
    else:
        lr /= 4.0
