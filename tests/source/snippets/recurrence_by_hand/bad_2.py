from torch import nn


class Reader(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x, state):
        for step in x.unbind(1):  # found: recurrence_by_hand
            state = self.cell(step, hidden=state)
        return state
