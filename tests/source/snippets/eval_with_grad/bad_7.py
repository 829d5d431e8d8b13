import torch


def run_epoch(model, loader, criterion, optimizer=None, training=True):
    model.train(training)
    for x, y in loader:
        out = model(x)  # found: eval_with_grad
        loss = criterion(out, y)
        if training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


for epoch in range(9):
    run_epoch(model, loader, criterion, optimizer)
    run_epoch(model, held_out, criterion, training=False)
