"""A word-level language model: an LSTM on WikiText-2."""

import argparse
import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--data", default="wikitext-2")
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--lr", type=float, default=20)
parser.add_argument("--clip", type=float, default=0.25)
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--bptt", type=int, default=35)
parser.add_argument("--log-interval", type=int, default=200)
parser.add_argument("--save", default="model.pt")
args = parser.parse_args()
device = torch.device("cuda")


class Corpus:
    def __init__(self, path):
        self.words = {}
        self.train = self.tokenize(os.path.join(path, "train.txt"))
        self.valid = self.tokenize(os.path.join(path, "valid.txt"))
        self.test = self.tokenize(os.path.join(path, "test.txt"))

    def tokenize(self, path):
        ids = []
        with open(path, encoding="utf8") as lines:
            for line in lines:
                for word in [*line.split(), "<eos>"]:
                    ids.append(self.words.setdefault(word, len(self.words)))
        return torch.tensor(ids, dtype=torch.long)


class Swish(nn.Module):
    def forward(self, x):
        return F.silu(x)


class RNNModel(nn.Module):
    def __init__(self, layers, dropout=0.2):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(33280, 200)
        self.rnn = nn.LSTM(200, 648, layers, dropout=dropout)
        self.act = Swish()
        self.decoder = nn.Linear(648, 33280)
        self.layers = layers

    def forward(self, tokens, hidden):
        embedded = self.drop(self.encoder(tokens))
        output, hidden = self.rnn(embedded, hidden)
        return self.decoder(self.act(self.drop(output))), hidden

    def init_hidden(self, batch):
        weight = next(self.parameters())
        return (
            weight.new_zeros(self.layers, batch, 648),
            weight.new_zeros(self.layers, batch, 648),
        )


def batchify(data, batch):
    steps = data.size(0) // batch
    return data.narrow(0, 0, steps * batch).view(batch, -1).t().contiguous().to(device)


def repackage(hidden):
    return tuple(state.detach() for state in hidden)


def get_batch(source, i):
    length = min(args.bptt, len(source) - 1 - i)
    return source[i : i + length], source[i + 1 : i + 1 + length].reshape(-1)


corpus = Corpus(args.data)
train_data = batchify(corpus.train, args.batch_size)
val_data = batchify(corpus.valid, 16)
test_data = batchify(corpus.test, 16)
model = RNNModel(args.layers).to(device)
criterion = nn.CrossEntropyLoss()


@torch.no_grad()
def evaluate(data_source):
    model.eval()
    total = torch.zeros((), device=device)
    hidden = model.init_hidden(16)
    for i in range(0, data_source.size(0) - 1, args.bptt):
        data, targets = get_batch(data_source, i)
        output, hidden = model(data, hidden)
        hidden = repackage(hidden)
        total += len(data) * criterion(output.flatten(0, 1), targets)
    return total.item() / (len(data_source) - 1)


def train(epoch, lr):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, fused=True)
    start = time.time()
    hidden = model.init_hidden(args.batch_size)
    for batch, i in enumerate(range(0, train_data.size(0) - 1, args.bptt)):
        data, targets = get_batch(train_data, i)
        hidden = repackage(hidden)
        optimizer.zero_grad()
        output, hidden = model(data, hidden)
        loss = F.cross_entropy(output.flatten(0, 1), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        if batch % args.log_interval == 0 and batch > 0:
            elapsed = time.time() - start
            print(f"epoch {epoch} batch {batch} loss {loss.item():.2f} {elapsed:.1f} s")


lr = args.lr
best_val_loss = None
for epoch in range(1, args.epochs + 1):
    train(epoch, lr)
    val_loss = evaluate(val_data)
    print(f"epoch {epoch} valid loss {val_loss:.2f} ppl {math.exp(val_loss):.2f}")
    if not best_val_loss or val_loss < best_val_loss:
        with open(args.save, "wb") as f:
            torch.save(model, f)
        best_val_loss = val_loss
    else:
        lr /= 4.0
print(f"test ppl {math.exp(evaluate(test_data)):.2f}")
