import torch


class Agent:
    """Which device it is, another module says."""

    def __init__(self, env, device="cpu"):
        self.device = device
        self.noise = torch.distributions.Normal(0.0, 1.0)
        self.optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-3)

    def update(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def train(self):
        while self.steps < 1000:
            action = torch.clamp(self.actor(self.state) + self.noise.sample((2,)), -1, 1)
            action = action.to("cpu").detach().numpy()  # found: cpu_in_step
            self.state = self.env.step(action)
            self.update(self.loss())
