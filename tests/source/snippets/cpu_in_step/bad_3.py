import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
network = torch.nn.Linear(8, 2).to(device)
optimizer = torch.optim.Adam(network.parameters(), lr=1e-4)

for frame in range(1_000_000):
    memory.push(environment.step(policy(frame)))
    if frame > 10_000:
        if frame % 4 == 0:
            states, targets, places = memory.draw(32)
            errors = (network(states.to(device)) - targets.to(device)).pow(2).mean(dim=1)
            optimizer.zero_grad()
            errors.mean().backward()
            optimizer.step()
            memory.weigh(places, errors.detach().cpu().numpy())  # found: cpu_in_step
            if frame % 400 == 0:
                print(errors.mean().item())
