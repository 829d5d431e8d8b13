import torch
from tqdm import tqdm

bar = tqdm(loader)
for x, y in bar:
    loss = criterion(model(x.cuda(non_blocking=True)), y)
    loss.backward()
    optimizer.step()
    meter.update(float(loss), len(x))  # found: item_in_step
    total += loss.data[0]  # found: item_in_step
    bar.set_postfix(loss=loss.item())  # found: item_in_step
    bar.set_postfix({"accuracy": float((model.last == y).float().mean())})
    history.append(float(loss.detach()))  # found: item_in_step
