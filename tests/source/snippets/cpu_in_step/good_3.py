import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
network = torch.nn.Linear(8, 2).to(device)
optimizer = torch.optim.Adam(network.parameters(), lr=1e-4)

for frame in range(1_000_000):
    memory.push(environment.step(policy(frame)))
    if frame % 4 == 0:
        states, targets = memory.draw(32)
        errors = (network(states.to(device)) - targets.to(device)).pow(2).mean(dim=1)
        optimizer.zero_grad()
        errors.mean().backward()
        optimizer.step()
    if frame % 4_000 == 0:
        keep(errors.detach().cpu().numpy())
