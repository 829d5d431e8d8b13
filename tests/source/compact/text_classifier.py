"""A text classifier: states made in each forward, gradients limited one by one."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Variable

BATCH, WIDTH = 32, 300


def clip_gradient(model, limit):
    for p in model.parameters():  # found: clipping_loop
        p.grad.data.clamp_(-limit, limit)


class Classifier(nn.Module):
    def __init__(self, words, width, hidden):
        super().__init__()
        self.embedding = nn.Embedding(words, width)  # found: odd_dimension
        self.lstm = nn.LSTM(width, hidden)  # found: odd_dimension
        self.label = nn.Linear(hidden, 2)

    def forward(self, text):
        h = Variable(torch.zeros(1, BATCH, 256).cuda())  # found: moved_after_creation
        c = Variable(torch.zeros(1, BATCH, 256).cuda())  # found: moved_after_creation
        out, (last, _) = self.lstm(self.embedding(text), (h, c))
        return self.label(last[-1])


model = Classifier(20000, WIDTH, 256)


def train_model(batches):
    model.cuda()
    optimizer = torch.optim.Adam(model.parameters())  # found: unfused_optimizer
    total = 0
    model.train()
    for text, target in batches:  # found: full_precision_training, uncompiled_model, constant_learning_rate
        text, target = text.cuda(), target.cuda()  # found: pageable_copy
        optimizer.zero_grad()
        loss = F.cross_entropy(model(text), target)
        loss.backward()
        clip_gradient(model, 0.1)
        optimizer.step()
        total += loss.item()  # found: item_in_step
    return total


for epoch in range(10):
    train_model(batches)
model.eval()
output = model(sentence.cuda())  # found: eval_with_grad
print(output.argmax(1))
