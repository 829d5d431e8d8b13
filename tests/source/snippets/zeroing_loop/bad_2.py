import torch


class Trainer:
    def clear(self):
        for name, param in self.net.named_parameters():  # found: zeroing_loop
            if param.grad is not None:
                param.grad.detach_()
                param.grad.zero_()
