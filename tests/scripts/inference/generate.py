"""A tiny GPT that generates token by token, its whole text anew each time."""

import torch
from torch import nn


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(100, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 100)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.blocks(self.words(tokens), mask=mask, is_causal=True))

    @torch.no_grad()
    def generate(self, tokens, count):
        for _ in range(count):
            following = self(tokens)[:, -1].argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, following], 1)
        return tokens


torch.manual_seed(0)
model = GPT().eval()
for _ in range(20_000):
    print(model.generate(torch.randint(0, 100, (2, 8)), 12).tolist()[0][-12:])
