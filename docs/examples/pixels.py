"""A small convolutional network for observations that are images [height, width, channels] of bytes."""

import math

import torch
from torch import nn

import fp3o


@fp3o.network("pixels")
class Pixels(nn.Module):
    def __init__(self, inputs, settings):
        super().__init__()
        self.inputs = inputs
        *images, height, width, channels = inputs.shape  # a critic sees the images of all agents
        self.first = nn.Conv2d(channels, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.last = nn.Linear(math.prod(images) * height * width * 8 + inputs.rest, settings.hidden_size)

    def forward(self, observation, available, memory):
        images, rest = self.inputs.split(observation)
        x = images.flatten(0, -4).movedim(-1, 1) / 255
        x = torch.relu(self.second(torch.relu(self.first(x))))
        return torch.relu(self.last(torch.cat([x.reshape(observation.shape[0], -1), rest], -1)))
