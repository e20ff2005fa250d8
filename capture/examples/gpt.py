"""The model that train_ddp.py trains: a small GPT."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Every position looks at itself and at the positions before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return what each position gathers from the others."""
        batch, context, width = x.shape
        parts = self.query_key_value(x).view(batch, context, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(y.transpose(1, 2).reshape(batch, context, width))


class Block(nn.Module):
    """One layer: attention, then a feed-forward network."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.forward_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` plus what this layer adds to it."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.down(functional.gelu(self.up(self.forward_norm(x))))


class GPT(nn.Module):
    """Tokens in, a score for every possible next token out."""

    def __init__(self, vocabulary: int, context: int, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.position_embedding = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores, shaped batch × context × vocabulary."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    """Return how badly the model guesses the next tokens: the mean cross entropy."""
    return functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
