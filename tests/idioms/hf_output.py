"""A small GPT-2 of transformers, from scratch, in a loop of one's own."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(
    vocab_size=50, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
)
model = GPT2LMHeadModel(config)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
tokens = torch.arange(8 * 16).view(8, 16) % 50

for step in range(12):
    outputs = model(input_ids=tokens, labels=tokens)
    loss = outputs.loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.5f} logits {tuple(outputs.logits.shape)}")

print("done")
