"""Playing episodes with a Decision Transformer's network, a step at a time, without overhead.

A step multiplies three tokens by six layers of small matrices. The calls of modules and operations
cost more time than their arithmetic. So each operation is called directly, and what an episode does
not change is computed once. Keys and values of the tokens so far lie in a cache.
"""

from __future__ import annotations

from collections.abc import Mapping

from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.spatial.decision_network import Block, Model
from pmoss_agents.spatial.encoders import FORBIDDEN
from pmoss_agents.standardise import OUTLIER, Standardise


class Player:
    """Scores of one step after the other, equal to those of Model.forward() up to rounding.

    The network's weights are read where they are. They may change between episodes only.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._token = _linear(model.states.token)
        self._near, self._far = _linear(model.states.near), _linear(model.states.far)
        self._masks = _linear(model.states.inputs.masks)
        self._norm = _linear(model.norm)
        self._layers = [
            _Layer(block, 3 * model.slices + 2)
            for block in model.blocks
            if isinstance(block, Block)
        ]
        # Where the tokens of each step belong, and what they may attend to.
        self._places = [_places_of(model, number) for number in range(model.slices)]
        last = model.sight.shape[0] - 1
        self._sights = [
            _added(model.sight[places.clamp(max=last), : 3 * number + 3])
            for number, places in enumerate(self._places)
        ]
        self.start()

    def start(self) -> None:
        """Forgets the episode: what is left in the cache is overwritten before it is read."""
        self.step = 0

    def scores(self, state: Mapping[str, Tensor], return_to_go: float, action: int) -> Tensor:
        """(tiles,) scores at the next step.

        Args:
            state: the arrays of one step of Model.forward(). ``incumbent_view`` and ``meta`` are
                read at the first step only.
            return_to_go: in units of what is to be expected of the instance.
            action: the tile chosen at the step before; ignored at the first.
        """
        model, step = self._model, self.step
        if step == 0:
            self._begin(state)
        features = self._features(state)
        token = F.linear(features.flatten(2), *self._token)
        asked = self._wanted(return_to_go)
        place = model.places.weight[step]
        wanted, now = asked + place, token[0, 0] + place
        before = model.actions.weight[action] + model.places.weight[max(step - 1, 0)]
        if model.meta_at == 0:
            tokens = [before if step > 0 else self._first, wanted, now]
        else:
            tokens = [before, self._first, wanted, now]
        x = torch.stack(tokens)
        places, sight = self._places[step], self._sights[step]
        for layer in self._layers:
            x = layer.forward(x, sight, places)
        hidden = F.layer_norm(x[None, -1:], model.norm.normalized_shape, *self._norm)
        self.step += 1
        return self._scores(hidden, asked[None, None], features, state["position_mask"])

    def _begin(self, state: Mapping[str, Tensor]) -> None:
        """Computes what stays the same for an episode."""
        model, inputs = self._model, self._model.states.inputs
        self._first = model.opening(state["meta"], state.get("slice_counters"))
        self._members = {level: inputs.member(level) for level in ("cache", "node")}
        self._terms: list[tuple[str, str, Standardise, Tensor, Tensor | None]] = []
        for name in inputs.sums():
            scale = inputs.scales[name]
            assert isinstance(scale, Standardise)
            weight = _weight(inputs.weights[name])
            level, _, when = name.partition("_")
            fixed = None
            if when == "before":
                fixed = self._term(state["incumbent_view"][None, None], level, scale, weight)
            self._terms.append((name, level, scale, weight, fixed))
        self._joined = _weight(inputs.weights["core_joined"]) if inputs.joins else None
        self._topology = None
        if "topology" in inputs.groups:
            self._topology = inputs.topology(inputs.sizes())

    def _term(self, view: Tensor, level: str, scale: Standardise, weight: Tensor) -> Tensor:
        """What the counters of all tiles, summed over a level, add to each tile's features."""
        if level == "core":
            return F.linear(_standard(view, scale), weight)
        if level == "machine":
            return F.linear(_standard(view.sum(-2, keepdim=True), scale), weight)
        member = self._members[level].to(view.dtype)
        return member @ F.linear(_standard(member.T @ view, scale), weight)

    def _features(self, state: Mapping[str, Tensor]) -> Tensor:
        """(1, 1, tiles, channels); see StateEncoder.forward() and TileInputs.forward()."""
        states = self._model.states
        placed, slice_ = state["machine_view"][None, None], state["slice_view"][None, None]
        masks = torch.stack([state["view_mask"], state["position_mask"]], -1)[None, None]
        total = F.linear(masks, *self._masks)
        for name, level, scale, weight, fixed in self._terms:
            if fixed is not None:
                total += fixed
            elif name == "slice":
                total += F.linear(_standard(slice_, scale), weight).unsqueeze(2)
            else:
                total += self._term(placed, level, scale, weight)
                if level == "core" and self._joined is not None:
                    both = placed + slice_.unsqueeze(2)
                    total += F.linear(_standard(both, scale), self._joined)
        if self._topology is not None:
            total += self._topology
        mixed = total.relu_()
        _, _, tiles, channels = mixed.shape
        image = mixed.reshape(1, *states.grid, channels).permute(0, 3, 1, 2)
        near = F.conv2d(image, *self._near, padding=1)
        image = image + F.conv2d(near.relu_(), *self._far, padding=1)
        return image.permute(0, 2, 3, 1).reshape(1, 1, tiles, channels)

    def _wanted(self, return_to_go: float) -> Tensor:
        """See Model.wanted()."""
        model = self._model
        standard = (torch.tensor(return_to_go) - model.returns_mean) / model.returns_std
        first, _, second = model.returns
        hidden = F.gelu(F.linear(standard.unsqueeze(-1), *_linear(first)))
        return F.linear(hidden, *_linear(second))

    def _scores(
        self, hidden: Tensor, wanted: Tensor, features: Tensor, position_mask: Tensor
    ) -> Tensor:
        """(tiles,); see Model.scores()."""
        model = self._model
        asked = F.linear(torch.cat([hidden, wanted], -1), *_linear(model.pointer)).unsqueeze(-2)
        joint = F.gelu(F.linear(features, *_linear(model.tile)) + asked)
        pointed = F.linear(joint, *_linear(model.score)).squeeze(-1)
        scores = (pointed + F.linear(hidden, *_linear(model.plain)))[0, 0]
        return scores.masked_fill_(position_mask == 0, FORBIDDEN)


class _Layer:
    """The tensors of a Block, and its forward() with a cache of so many tokens."""

    def __init__(self, block: Block, tokens: int) -> None:
        self._heads, self._shape = block.heads, block.norm_1.normalized_shape
        self._norm_1, self._norm_2 = _linear(block.norm_1), _linear(block.norm_2)
        self._qkv, self._out = _product(block.qkv), _product(block.out)
        self._up, self._down = _product(block.up), _product(block.down)
        (width,) = block.norm_1.normalized_shape
        self._cache = torch.zeros(2, block.heads, tokens, width // block.heads)
        self._key, self._value = self._cache.unsqueeze(1)

    def forward(self, x: Tensor, sight: Tensor, places: Tensor) -> Tensor:
        """(n, width) of (n, width); see Block.forward()."""
        n, width = x.shape
        bias, weight = self._qkv
        qkv = torch.addmm(bias, F.layer_norm(x, self._shape, *self._norm_1), weight)
        qkv = qkv.view(n, 3, self._heads, width // self._heads).permute(1, 2, 0, 3)
        self._cache.index_copy_(2, places, qkv[1:])
        end = sight.shape[1]
        y = F.scaled_dot_product_attention(
            qkv[:1], self._key.narrow(2, 0, end), self._value.narrow(2, 0, end), attn_mask=sight
        )
        bias, weight = self._out
        x = torch.addmm(bias, y.transpose(1, 2).reshape(n, width), weight).add_(x)
        bias, weight = self._up
        y = F.gelu(torch.addmm(bias, F.layer_norm(x, self._shape, *self._norm_2), weight))
        bias, weight = self._down
        return torch.addmm(bias, y, weight).add_(x)


def _places_of(model: Model, number: int) -> Tensor:
    """Where a step's tokens belong in the sequence of all.

    With meta in front of the last step, these are the action before, meta, return-to-go and state.
    No action comes before the first step, and meta comes once. What is not due goes to a place
    behind the last, which no token attends to. Behind the meta token all others are one further on.
    """
    first, at = 3 * number, model.meta_at
    if at == 0:  # meta takes the place of the action that the first step lacks
        return torch.tensor([first, first + 1, first + 2])
    unseen = model.sight.shape[0]
    due = [
        first - 1 + (first - 1 >= at) if first > 0 else unseen,
        at if first == at else unseen,
        first + (first >= at),
        first + 1 + (first + 1 >= at),
    ]
    return torch.tensor(due)


def _weight(module: nn.Module) -> Tensor:
    weight = module.weight
    assert isinstance(weight, Tensor)
    return weight


def _linear(module: nn.Module) -> tuple[Tensor, Tensor]:
    """The weights and the bias."""
    bias = module.bias
    assert isinstance(bias, Tensor)
    return _weight(module), bias


def _product(module: nn.Module) -> tuple[Tensor, Tensor]:
    """The bias and the transposed weights."""
    weight, bias = _linear(module)
    return bias, weight.t()


def _added(sight: Tensor) -> Tensor:
    """What is added to the scores of attention for a mask of what is attended to."""
    return torch.zeros(sight.shape).masked_fill_(~sight, -torch.inf)


def _standard(counters: Tensor, scale: Standardise) -> Tensor:
    """See Standardise.forward()."""
    standard = torch.log1p(counters).sub_(scale.mean).div_(scale.std)
    return standard.clamp_(-OUTLIER, OUTLIER)
