import torch

for step, rows in enumerate(loader):
    kept = [0.0]
    for row in rows:
        kept.append(score(row))
    one_more = torch.tensor([kept])  # found: tensor_of_lists
    first = torch.tensor(kept)  # found: tensor_of_lists
    both = torch.tensor([1.0, *kept])  # found: tensor_of_lists
    squares = torch.tensor([[k * k for k in kept]])  # found: tensor_of_lists
    loss = model(first, both, squares, one_more)
    loss.backward()
    optimizer.step()
