"""Networks that several scripts of this folder train."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """A transformer's block: each token sees those before it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.projection, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, tokens):
        batch, length, width = tokens.shape
        split = self.projection(self.before_attention(tokens)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        tokens = tokens + self.joined(seen.transpose(1, 2).reshape(batch, length, width))
        return tokens + self.feed(self.before_feed(tokens))


class LanguageModel(nn.Module):
    """Token numbers to logits of the next ones."""

    def __init__(self, words, width, layers, heads, length):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, words))

    def forward(self, numbers):
        return self.head(self.blocks(self.words(numbers) + self.places[: numbers.shape[1]]))


def convolutions(inputs, outputs):
    layers = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Images to images of the same size, by way of three smaller ones."""

    def __init__(self, inputs, outputs, width):
        super().__init__()
        widths = [width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList(map(convolutions, [inputs, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(wide, narrow, 2, 2) for narrow, wide in zip(widths, widths[1:]))
        self.joined = nn.ModuleList(convolutions(2 * narrow, narrow) for narrow in widths[:-1])
        self.head = nn.Conv2d(width, outputs, 1)

    def forward(self, images):
        levels = [self.down[0](images)]
        for down in self.down[1:]:
            levels.append(down(F.max_pool2d(levels[-1], 2)))
        result = levels.pop()
        for up, joined in zip(reversed(self.up), reversed(self.joined)):
            result = joined(torch.cat([up(result), levels.pop()], 1))
        return self.head(result)
