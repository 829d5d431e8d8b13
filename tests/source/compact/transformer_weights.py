"""Translation with a transformer of one's own, whose attention weights nobody reads."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.width = heads, width
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.width**0.5
        scores = scores.masked_fill(mask == 0, -1e9)
        weights = F.softmax(scores, dim=-1)
        return self.out(torch.matmul(weights, v))  # found: attention_by_hand


model = SelfAttention(512, 8).cuda()
optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))  # found: unfused_optimizer
loader = DataLoader(pairs, 64, num_workers=4, pin_memory=True, persistent_workers=True)
for epoch in range(10):
    correct = 0
    for rows, mask, gold in loader:  # found: full_precision_training, uncompiled_model, constant_learning_rate, unclipped_gradients
        rows, mask = rows.cuda(non_blocking=True), mask.cuda(non_blocking=True)
        gold = gold.cuda()  # found: blocking_copy
        optimizer.zero_grad()
        scores = model(rows, mask)
        loss = F.cross_entropy(scores.flatten(0, 1), gold.flatten())
        loss.backward()
        optimizer.step()
        correct += scores.argmax(-1).eq(gold).sum().item()  # found: item_in_step
