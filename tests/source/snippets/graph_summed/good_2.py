import torch

for sequence in data:
    hidden = model.init()
    loss = 0
    for x, y in sequence:
        out, hidden = model(x, hidden)
        loss += criterion(out, y)
    loss.backward()
    optimizer.step()
accumulated = 0
for step, (x, y) in enumerate(loader):
    accumulated = accumulated + criterion(model(x), y)
    if step % 4 == 3:
        accumulated.backward()
        optimizer.step()
        accumulated = 0
model.eval()
with torch.no_grad():
    for x, y in loader:
        valid += criterion(model(x), y)


def update_model():
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


for epoch in range(10):
    total_loss = torch.zeros(())
    for _ in range(100):
        total_loss += update_model()
