import torch

SET_TO_NONE = False


class Trainer:
    def step(self, batch):
        self.opt_g.zero_grad(set_to_none=SET_TO_NONE)  # found: gradients_zeroed
        self.model(batch).mean().backward()
        self.opt_g.step()
