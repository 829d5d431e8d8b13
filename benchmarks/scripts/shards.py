"""Data parallel ranks with shards of texts: `torchrun ... shards.py equal|sorted`.

Sorted by length, one rank gets the shorter half of the texts and the other the longer one.
"""

import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

TEXTS, WORDS, WIDTH, BATCH = 4096, 1000, 96, 16


class Classifier(nn.Module):
    """Two blocks of a Transformer, of whose outputs the mean is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, 2)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 256, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores (N, 2) of tokens (N, T)."""
        scores: Tensor = self.head(self.encoder(self.embed(tokens)).mean(1))
        return scores


def main(kind: str) -> None:
    """Train on this rank's shard."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    drawn = torch.Generator().manual_seed(0)
    lengths = torch.randint(32, 96, (TEXTS,), generator=drawn)
    sorted_ = torch.argsort(lengths).chunk(world)[rank]
    mine = sorted_ if kind == "sorted" else torch.randperm(TEXTS, generator=drawn)[rank::world]
    texts = [torch.randint(1, WORDS, (int(lengths[at]),), generator=drawn) for at in mine]
    model = DistributedDataParallel(Classifier())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(3):
        for begin in range(0, len(texts) - BATCH, BATCH):
            batch = texts[begin : begin + BATCH]
            labels = torch.tensor([int(text[0]) % 2 for text in batch])
            scores = model(nn.utils.rnn.pad_sequence(batch, batch_first=True))
            optimizer.zero_grad()
            nn.functional.cross_entropy(scores, labels).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
