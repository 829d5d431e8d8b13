import torch


def train(model, loader, optimizer, args, scaler):
    count = 0
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()  # found: undivided_accumulation
        count += 1
        if count % args.gradient_accumulation_steps == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    scaler.step(optimizer)
