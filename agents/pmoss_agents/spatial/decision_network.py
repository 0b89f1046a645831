"""The Decision Transformer's settings and network: tokens in, scores of core tiles out.

``Model`` takes a batch of whole episodes at once. ``decision_player.Player`` goes step by step with
a cache of keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from pmoss_agents.agent import Array
from pmoss_agents.configs import Settings
from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.spatial.encoders import (
    FORBIDDEN,
    GROUPS,
    SliceSet,
    StateEncoder,
    TileInputs,
    check_groups,
)
from pmoss_agents.spatial.observations import Layout
from pmoss_agents.standardise import Standardise

#: A gigabyte of them, four while it learns.
_MAX_WEIGHTS = 2**28


@dataclass(frozen=True)
class Config(Settings):
    """Settings of a Decision Transformer; its sizes are the paper's (section 7.1).

    Comments name the paper's other choices. ``configs/decision-transformer-paper.toml`` makes them,
    all but those of ``encoder``, ``snapshot`` and ``falls``.
    """

    agent: ClassVar[str] = "decision-transformer"
    BOUNDS: ClassVar = {
        **dict.fromkeys(("dropout", "doubt", "held_out"), "[0, 1)"),
        **dict.fromkeys(("warmup", "weight_decay"), "[0, inf)"),
        **dict.fromkeys(("target_return", "learning_rate", "clip", "temperature"), "(0, inf)"),
        "expectile": "(0, 1)",
        "keep_best": "(0, 1]",
        **dict.fromkeys(("rows", "cols"), "[0, 4096]"),
    }

    layers: int = 6  # transformer blocks
    heads: int = 8  # attention heads
    width: int = 128  # embedding size
    channels: int = 32  # features per core tile in the state encoder
    joint: int = 32  # features in which a tile, its state and the wanted return meet
    # Core tiles that the grid has at least: room for larger machines to go on with. 0: of the data.
    rows: int = 0
    cols: int = 0
    # Steps that a token may look back on, its own included; 256 is all of an episode with 256
    # slices. The meta token stays in sight of all that come after it.
    context: int = 256
    dropout: float = 0.1  # probability, on residual branches
    # "first", or "last": just before the last step, as the paper shows it.
    meta_position: Literal["first", "last"] = "first"
    # What turns a state into tokens. "tiles": a token, and features of each tile that the action
    # head points at. "plain": the paper's three convolutions and one layer (section 6.3); actions
    # are read off the token alone.
    encoder: Literal["tiles", "plain"] = "tiles"
    # What follows the sequence; the paper allows any such model (section 6.3). "lstm" passes a
    # state on from token to token, and has neither heads nor a context: Siebenborn et al., How
    # Crucial is Transformer in Decision Transformer?, 2022.
    backbone: Literal["transformer", "lstm"] = "transformer"
    inputs: tuple[str, ...] = GROUPS  # that the network sees
    # The return-to-go. "terminal": the wanted throughput, the same at each step. "slice": the
    # paper's; what each placed slice is expected to serve is taken off. "improvement": what is
    # still to be gained; needs observe(reward) after each step.
    reward: Literal["improvement", "slice", "terminal"] = "terminal"
    # How the return-to-go of "slice" falls at use. "even": each placed slice takes off its share of
    # the incumbent's queries where they are seen, else the mean share. "observed": by what the
    # placed slices serve in the machine view, as in the paper; it then never comes to 0.
    falls: Literal["even", "observed"] = "even"
    # Under which schedule the machine view was counted that is learned from. "own": the one that
    # the episode built, as in the paper's data (section 6.1). At use both show the recent snapshot,
    # which is the incumbent's (section 6.4).
    snapshot: Literal["incumbent", "own"] = "incumbent"
    # Wanted throughput at use, in multiples of what is to be expected at best.
    target_return: float = 1.1
    # What is to be expected is this expectile of the data's final throughputs.
    expectile: float = 0.95
    # Give cores of one node and last-level cache other places in every batch. A tie among them is
    # then learned as a tie, not as the place that a rule preferred.
    shuffle_cores: bool = False
    # The q of imitation_loss(). An action that the model finds unlikely, as those of
    # searches are, then teaches by p^q less. A mixture of behaviours is learned by its sharpest
    # part.
    doubt: float = 0.0
    # Share of the episodes that are not trained on but decide which checkpoint is best.
    held_out: float = 0.0
    # Share of the episodes trained on, best final throughput first; 1 keeps all.
    keep_best: float = 1.0
    updates: int = 1000  # gradient steps
    batch_size: int = 4  # whole episodes per update
    learning_rate: float = 6e-4  # of AdamW, after warm-up; then a cosine down to a tenth
    warmup: int = 50  # updates of linear warm-up
    weight_decay: float = 0.1  # of matrices; biases, norms and embeddings have none
    clip: float = 1.0  # largest norm of the gradient
    decoding: Literal["greedy", "sample"] = "greedy"
    temperature: float = 1.0  # of sampling
    seed: int = 0  # of weights, order of episodes, dropout and sampling
    threads: int = 1  # of torch in fit(); act() uses one, because its steps are too small to share
    device: str = "cpu"  # where it learns, see configs.DEVICES
    # Of products and attention in fit(). "bfloat16" pays where the processor or the GPU has
    # instructions for it; weights and the loss stay in float32, and act() always does.
    precision: Literal["float32", "bfloat16"] = "float32"
    save_every: int = 100  # updates between checkpoints, if fit() is given a place for them
    # Whether the meta token, then the first, has a summary of all slices; QT's critics see none.
    # Any data hold their counters; it plays where observation="complete".
    complete: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        groups = check_groups(self.inputs, f"{self.agent}: inputs")
        object.__setattr__(self, "inputs", groups)
        whole = self.width % self.heads == 0
        self.check("width", whole, f"be a multiple of heads = {self.heads}")
        reaches_all = not self.complete or self.meta_position == "first"
        rule = "be 'first' where complete is true: no step before the last would see the summary"
        self.check("meta_position", reaches_all, rule)
        small = 12 * self.layers * self.width**2 <= _MAX_WEIGHTS
        self.check("width", small, f"give at most {_MAX_WEIGHTS} weights")


class Block(nn.Module):
    """A pre-norm transformer block with causal attention."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.norm_1 = nn.LayerNorm(config.width)
        self.norm_2 = nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.down = nn.Linear(4 * config.width, config.width)
        self.dropout = config.dropout

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Maps whole sequences (B, n, width) to the same shape.

        Args:
            mask: (n, n) bool, what each token may attend to; None: all before it.
        """
        batch, n, width = x.shape
        qkv = self.qkv(self.norm_1(x)).view(batch, n, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None
        )
        y = self.out(y.transpose(1, 2).reshape(batch, n, width))
        x = x + F.dropout(y, self.dropout, self.training)
        y = self.down(F.gelu(self.up(self.norm_2(x))))
        return x + F.dropout(y, self.dropout, self.training)


class Model(nn.Module):
    """The network: tokens in, one score per core tile and step out."""

    returns_mean: Tensor
    returns_std: Tensor
    sight: Tensor

    def __init__(
        self, config: Config, grid: tuple[int, int], counters: int, meta: int, slices: int
    ) -> None:
        super().__init__()
        tiles = grid[0] * grid[1]
        self.slices = slices
        self.meta_at = 0 if config.meta_position == "first" else 3 * (slices - 1)
        self.whole = config.context >= slices
        self.register_buffer("sight", self._sight(config.context), persistent=False)
        self.states = StateEncoder(
            grid,
            counters,
            channels=config.channels,
            width=config.width,
            inputs=config.inputs,
            plain=config.encoder == "plain",
        )
        self.meta_standard = Standardise(meta)
        self.meta = nn.Linear(meta, config.width)
        # Statistics of the returns-to-go: without them good and bad episodes look nearly alike.
        self.register_buffer("returns_mean", torch.zeros(()))
        self.register_buffer("returns_std", torch.ones(()))
        self.returns = nn.Sequential(
            nn.Linear(1, config.width), nn.GELU(), nn.Linear(config.width, config.width)
        )
        self.actions = nn.Embedding(tiles, config.width)
        # The paper's slice embedding: one vector per place in the order, for all of its tokens.
        self.places = nn.Embedding(slices, config.width)
        self.memory: nn.LSTM | None = None
        blocks = config.layers if config.backbone == "transformer" else 0
        self.blocks = nn.ModuleList(Block(config) for _ in range(blocks))
        if not blocks:
            dropout = config.dropout if config.layers > 1 else 0.0
            self.memory = nn.LSTM(
                config.width, config.width, config.layers, dropout=dropout, batch_first=True
            )
        self.norm = nn.LayerNorm(config.width)
        self.points = config.encoder == "tiles"
        if self.points:
            self.tile = nn.Linear(config.channels, config.joint)
            self.pointer = nn.Linear(2 * config.width, config.joint)
            self.score = nn.Linear(config.joint, 1)
        self.plain = nn.Linear(config.width, tiles)
        for name, part in self.named_children():
            if name not in ("states", "returns"):
                part.apply(_initialise)
        # Last: without it the other layers begin as ever.
        self.every = SliceSet(counters, config.width) if config.complete else None

    def set_up(self, parts: Sequence[tuple[Mapping[str, Array], Layout]], returns: Tensor) -> None:
        """Takes a machine, and statistics of the inputs and of the returns.

        Args:
            parts: of each machine samples of input_samples(), and how it is laid out.
            returns: (n,) float64, returns-to-go.
        """
        self.states.inputs.set_up(parts)
        self.meta_standard.set(np.concatenate([samples["meta"] for samples, _ in parts]))
        if self.every is not None:
            slices = [samples["slice_view"] for samples, _ in parts]
            self.every.scale.set(np.concatenate(slices))
        self.returns_mean.copy_(returns.mean())
        # Where all episodes end alike there is no scale to standardise to.
        self.returns_std.copy_(returns.std(unbiased=False).clamp(min=0.01))

    def see(self, layout: Layout) -> None:
        """Takes the machine of what comes next; the network's scales stay."""
        for module in self.modules():
            if isinstance(module, TileInputs):
                module.set_places(layout.places)

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Scores of all tiles at all steps of whole episodes.

        Args:
            batch: a state's arrays (see StateEncoder), ``meta`` (B, M), ``returns`` (B, T) and
                ``actions`` (B, T).

        Returns:
            (B, T, tiles), FORBIDDEN where the position mask is 0.
        """
        features, tokens = self.states(batch)
        size, steps, width = tokens.shape
        place = self.places.weight[None, :steps, None]
        wanted = self.wanted(batch["returns"])
        triples = torch.stack([wanted, tokens, self.actions(batch["actions"])], dim=2)
        sequence = (triples + place).reshape(size, 3 * steps, width)
        at = self.meta_at
        meta = self.opening(batch["meta"], batch["slice_view"]).unsqueeze(1)
        x = torch.cat([sequence[:, :at], meta, sequence[:, at:]], dim=1)
        for block in self.blocks:
            x = block(x, mask=None if self.whole else self.sight)
        if self.memory is not None:
            x, _ = self.memory(x)
        where = torch.arange(steps, device=x.device) * 3 + 1
        where = where + (where >= at)
        return self.scores(self.norm(x[:, where]), wanted, features, batch["position_mask"])

    def opening(self, meta: Tensor, slices: Tensor | None) -> Tensor:
        """(..., width) tokens of what is seen before the first step.

        Args:
            meta: (..., M).
            slices: (..., T, H) counters of all slices in any order; used where the config is
                ``complete``.
        """
        token: Tensor = self.meta(self.meta_standard(meta))
        if self.every is None:
            return token
        assert slices is not None
        left = slices.new_ones(*slices.shape[:-1], 1)
        sets = self.every.standardised(torch.cat([slices, left], -1))
        summary: Tensor = self.every(sets.reshape(-1, *sets.shape[-2:])).view_as(token)
        return token + summary

    def _sight(self, context: int) -> Tensor:
        """(3 T + 1, 3 T + 1) bool: which tokens each token may attend to."""
        step = torch.arange(3 * self.slices) // 3
        step = torch.cat([step[: self.meta_at], step[self.meta_at :][:1], step[self.meta_at :]])
        near = step[:, None] - step[None, :] < context
        near[:, self.meta_at] = True
        return near.tril()

    def wanted(self, returns: Tensor) -> Tensor:
        """(..., width) tokens of returns-to-go (...)."""
        standard = (returns - self.returns_mean) / self.returns_std
        token: Tensor = self.returns(standard.unsqueeze(-1))
        return token

    def scores(
        self, hidden: Tensor, wanted: Tensor, features: Tensor, position_mask: Tensor
    ) -> Tensor:
        """(B, n, tiles) scores of the tiles.

        Args:
            hidden: (B, n, width) of the states' tokens.
            wanted: (B, n, width), see wanted(). Given once more, it is not lost among the states,
                which show too how the episode goes.
            features: (B, n, tiles, channels).
            position_mask: (B, n, tiles).
        """
        scores: Tensor = self.plain(hidden)
        if self.points:
            asked = self.pointer(torch.cat([hidden, wanted], -1)).unsqueeze(-2)
            scores = self.score(F.gelu(self.tile(features) + asked)).squeeze(-1) + scores
        return scores.masked_fill(position_mask == 0, FORBIDDEN)


def _initialise(module: nn.Module) -> None:
    """GPT-2's initialisation; the convolutions keep PyTorch's own."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
