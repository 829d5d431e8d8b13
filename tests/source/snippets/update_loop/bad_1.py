import torch

with torch.no_grad():
    for p in model.parameters():  # found: update_loop
        p -= lr * p.grad
for f in net.parameters():  # found: update_loop
    f.data.sub_(f.grad.data * learning_rate)
