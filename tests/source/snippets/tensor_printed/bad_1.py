import torch

for i, (x, y) in enumerate(loader):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    print("step", i, "loss", loss)  # found: tensor_printed
    print(f"loss {loss:.4f}")  # found: tensor_printed
    print("loss %.3f" % loss)  # found: tensor_printed
    print("loss {}".format(loss.detach()))  # found: tensor_printed
