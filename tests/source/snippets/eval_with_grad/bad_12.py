import torch

q_network = QNetwork(envs).to(device)
optimizer = torch.optim.Adam(q_network.parameters(), fused=True)
obs, _ = envs.reset()
for step in range(1000):
    values = q_network(torch.as_tensor(obs, device=device))  # found: eval_with_grad
    actions = torch.argmax(values, dim=1).cpu().numpy()
    obs, rewards, ended, stopped, infos = envs.step(actions)
    data = memory.sample(64)
    optimizer.zero_grad()
    (q_network(data.observations) - data.targets).pow(2).mean().backward()
    optimizer.step()
