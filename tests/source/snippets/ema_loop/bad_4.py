import torch  # noqa: F401


class Average:
    def __init__(self, beta):
        self.beta = beta

    def update(self, averaged, current):
        for new, old in zip(current.parameters(), averaged.parameters()):  # found: ema_loop
            old.data = self.update_average(old.data, new.data)

    def update_average(self, old, new):
        return old * self.beta + (1 - self.beta) * new
