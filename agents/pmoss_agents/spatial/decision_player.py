"""Playing episodes with a Decision Transformer's network: a step at a time, some at once.

Keys and values of the tokens so far lie in a cache, so that a step computes its own tokens alone.
An LSTM passes its state on.
"""

from __future__ import annotations

from collections.abc import Mapping

from pmoss_agents.pytorch import F, Tensor, torch
from pmoss_agents.spatial.decision_network import Block, Model


class Player:
    """Scores of one step after the other, equal to those of Model.forward() up to rounding.

    The network's weights are read where they are. They may change between episodes only.
    """

    def __init__(self, model: Model, rows: int = 1) -> None:
        """Plays so many episodes at once."""
        self._model = model
        device, width = model.places.weight.device, model.places.embedding_dim
        self._blocks = [block for block in model.blocks if isinstance(block, Block)]
        self._caches = [
            torch.zeros(2, rows, b.heads, len(model.sight), width // b.heads, device=device)
            for b in self._blocks
        ]
        self.start()

    def start(self) -> None:
        """Forgets the episodes: what is left in the cache is overwritten before it is read."""
        self.step = self._end = 0
        self._passed: tuple[Tensor, Tensor] | None = None

    def scores(self, state: Mapping[str, Tensor], returns: Tensor, actions: Tensor) -> Tensor:
        """(rows, tiles) scores at the next step.

        Args:
            state: the arrays of one step of Model.forward(), (rows, 1, ...). ``meta`` (rows, M) and
                ``slice_counters`` are read at the first step only.
            returns: (rows,) returns-to-go, in units of what is to be expected of the instance.
            actions: (rows,) int64 tiles chosen at the step before; ignored at the first.
        """
        model, step = self._model, self.step
        if step == 0:
            self._opening = model.opening(state["meta"], state.get("slice_counters"))
        features, token = model.states(state)
        asked, place = model.wanted(returns), model.places.weight[step]
        tokens = [asked + place, token[:, 0] + place]
        if model.meta_at == 3 * step:
            tokens.insert(0, self._opening)
        if step > 0:
            tokens.insert(0, model.actions(actions) + model.places.weight[step - 1])
        x, begin = torch.stack(tokens, 1), self._end
        self.step, self._end = step + 1, begin + len(tokens)
        sight = model.sight[begin : self._end, : self._end]
        for block, cache in zip(self._blocks, self._caches, strict=True):
            x = _attended(block, x, cache, begin, sight)
        if model.memory is not None:
            x, self._passed = model.memory(x, self._passed)
        last = model.norm(x[:, -1:])
        return model.scores(last, asked[:, None], features, state["position_mask"])[:, 0]


def _attended(block: Block, x: Tensor, cache: Tensor, begin: int, sight: Tensor) -> Tensor:
    """(rows, n, width) of the same; see Block.forward().

    Args:
        cache: (2, rows, heads, L, width / heads), in which keys and values go from ``begin`` on.
        sight: (n, end) bool.
    """
    (rows, n, width), end = x.shape, sight.shape[1]
    qkv = block.qkv(block.norm_1(x)).view(rows, n, 3, block.heads, width // block.heads)
    query, cache[0, :, :, begin:end], cache[1, :, :, begin:end] = qkv.permute(2, 0, 3, 1, 4)
    key, value = cache[:, :, :, :end]
    # A few queries over many keys: two plain products. A fused kernel met bad memory on an H100.
    odds = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    y = odds.masked_fill(~sight, -torch.inf).softmax(-1) @ value
    x = x + block.out(y.transpose(1, 2).reshape(rows, n, width))
    after: Tensor = x + block.down(F.gelu(block.up(block.norm_2(x))))
    return after
