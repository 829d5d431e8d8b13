import torch


def sgd(params, lr, batch_size):
    with torch.no_grad():
        for param in params:  # found: update_loop
            param -= lr * param.grad / batch_size


for p in model.parameters():  # found: update_loop
    p.data.add_(p.grad, alpha=-lr)
for p in model.parameters():  # found: update_loop
    p.data = p.data - lr * p.grad
