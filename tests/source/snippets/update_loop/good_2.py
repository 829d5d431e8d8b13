import torch

errors = [p - t for p, t in zip(predictions, targets)]
scaled = [x - 0.5 * y for x, y in zip(left, right)]
total = sum(g.norm() ** 2 for g in grads)
clipped = [g * scale for g in grads]
for name in counts:
    counts[name] = counts[name] - 1
    counts[name] -= 2 * seen[name]
