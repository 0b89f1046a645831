"""A network with the layout of the original P-MOSS model, to train beside ours.

It has the original's parts and sizes: 6 layers, 8 heads, 128 wide, 3 T tokens, a state of 18
channels through three convolutions. Parts of the original that get no gradient are left out, so it
is a little faster than the original is.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LAYERS, HEADS, WIDTH, DROPOUT = 6, 8, 128, 0.1
STEPS, CHANNELS, ROWS, COLS, META = 256, 18, 8, 12, 24


class _Block(nn.Module):
    """Pre-norm, its attention written out: scores, mask, softmax, dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.key, self.query, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        inner = (nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.mlp = nn.Sequential(*inner, nn.Dropout(DROPOUT))
        self.attention_dropout, self.dropout = nn.Dropout(DROPOUT), nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, forbidden: Tensor) -> Tensor:
        normed = self.norm_1(x)
        query, key, value = (
            part(normed).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5
        odds = self.attention_dropout(scores.masked_fill(forbidden, float("-inf")).softmax(-1))
        x = x + self.dropout(self.out((odds @ value).transpose(1, 2).flatten(2)))
        out: Tensor = x + self.mlp(self.norm_2(x))
        return out


class OriginalLayout(nn.Module):
    """Returns-to-go, states and actions in, one score per tile and step out."""

    def __init__(self) -> None:
        super().__init__()
        convolutions = []
        for channels, out, kernel in ((CHANNELS, 16, 8), (16, 32, 4), (32, 16, 3)):
            convolutions += [nn.Conv2d(channels, out, kernel, stride=2, padding=1), nn.ReLU()]
        self.state = nn.Sequential(
            *convolutions, nn.Flatten(), nn.Linear(16, WIDTH - META), nn.Tanh()
        )
        self.meta = nn.Sequential(nn.Linear(META, 32), nn.ReLU(), nn.Linear(32, META))
        self.returns = nn.Sequential(nn.Linear(1, WIDTH), nn.Tanh())
        self.action = nn.Embedding(ROWS * COLS, WIDTH)
        self.blocks = nn.ModuleList(_Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, ROWS * COLS, bias=False)

    def forward(self, returns: Tensor, states: Tensor, meta: Tensor, actions: Tensor) -> Tensor:
        """Maps (B, T, 1), (B, T, channels, rows, cols), (B, META), (B, T) to (B, T, tiles)."""
        batch, steps = actions.shape
        state = self.state(states.flatten(0, 1)).view(batch, steps, -1)
        facts = self.meta(meta).unsqueeze(1).expand(-1, steps, -1)
        tokens = (self.returns(returns), torch.cat([state, facts], -1), self.action(actions))
        x = torch.stack(tokens, dim=2).view(batch, 3 * steps, WIDTH)
        forbidden = torch.ones(3 * steps, 3 * steps, dtype=torch.bool).triu(1)
        for block in self.blocks:
            x = block(x, forbidden)
        scores: Tensor = self.head(self.norm(x)[:, 1::3])
        return scores


class Training:
    """Updates on one batch that is drawn once: what is learned does not change the time."""

    def __init__(self, batch: int) -> None:
        """Draws a batch of so many trajectories."""
        rng = torch.Generator().manual_seed(0)
        self._model = OriginalLayout()
        self._optimiser = torch.optim.AdamW(
            self._model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1
        )
        self._inputs = (
            torch.rand(batch, STEPS, 1, generator=rng),
            torch.rand(batch, STEPS, CHANNELS, ROWS, COLS, generator=rng),
            torch.rand(batch, META, generator=rng),
            torch.randint(ROWS * COLS, (batch, STEPS), generator=rng),
        )

    def update(self) -> None:
        """One gradient step."""
        scores = self._model(*self._inputs)
        loss = F.cross_entropy(scores.flatten(0, 1), self._inputs[-1].flatten())
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._optimiser.step()
