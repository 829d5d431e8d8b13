from torch import nn


class Decoder(nn.Module):
    def start(self, memory):
        self.summed = memory.new_zeros(8)

    def decode(self, x):
        weights = self.attention(x)
        self.summed += weights
        return self.output(x)

    def forward(self, memory, inputs):
        self.start(memory)
        return [self.decode(x) for x in inputs]


model = Decoder()
for memory, inputs in loader:
    optimizer.zero_grad()
    loss = criterion(model(memory, inputs))
    loss.backward()
    optimizer.step()
