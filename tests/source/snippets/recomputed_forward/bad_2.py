import torch
import torch.utils.checkpoint as checkpointing


class Net(torch.nn.Module):
    def forward(self, x):
        x = checkpointing.checkpoint_sequential(self.stages, 4, x)  # found: recomputed_forward
        return self.head(x)
