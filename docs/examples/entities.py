"""Attention over entities: observations are tables with one row per entity, and their order means nothing."""

import torch
from torch import nn

import fp3o


@fp3o.network("entities")
class Entities(nn.Module):
    def __init__(self, inputs, settings):
        super().__init__()
        self.inputs, width = inputs, settings.hidden_size
        self.embed = nn.Linear(inputs.shape[-1], width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.last = nn.Linear(width + inputs.rest, width)

    def forward(self, observation, available, memory):
        table, rest = self.inputs.split(observation)
        seen = torch.relu(self.embed(table.flatten(1, -2)))  # a critic sees the entities of all agents
        scores = self.query(seen) @ self.key(seen).transpose(1, 2) / seen.shape[-1] ** 0.5
        mixed = seen + torch.softmax(scores, -1) @ self.value(seen)
        return torch.relu(self.last(torch.cat([mixed.amax(1), rest], -1)))
