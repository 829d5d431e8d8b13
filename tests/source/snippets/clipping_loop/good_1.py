import torch

norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
for p in critic.parameters():
    p.data.clamp_(-0.01, 0.01)
for p in model.parameters():
    p.grad /= world_size
for p in model.parameters():
    torch.nn.init.normal_(p)
for grad in grads:
    grad.clamp_(-1, 1)
