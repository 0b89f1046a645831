"""Many episodes at once with a Decision Transformer's network that sees the paper's tokens.

All that these tokens hold follows from the counters at an episode's beginning and from the actions.
So no environment has to step, and a GPU decides for thousands of episodes in seconds. Each row may
want another return, be greedy or sampled, and have a limit of slices on a core.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmoss_agents.agent import Array
from pmoss_agents.devices import find_device
from pmoss_agents.pytorch import torch
from pmoss_agents.spatial.decision_player import Player
from pmoss_agents.spatial.decision_transformer import DecisionTransformer
from pmoss_agents.spatial.planning.foresight import foresee
from pmoss_env.errors import CheckpointError, UnsupportedError
from pmoss_env.types import COUNTER_INDEX

_QUERIES = COUNTER_INDEX["queries"]


@dataclass(frozen=True)
class Beginnings:
    """What E episodes show at their beginning.

    Attributes:
        counters: (E, T, H) float32 of the slices in the order of placement, million per second.
        meta: (E, M) float32 of the observation.
        position_mask: (tiles,) 1 = a worker.
    """

    counters: Array
    meta: Array
    position_mask: Array


@dataclass(frozen=True)
class Plays:
    """How n rows are played.

    Attributes:
        episode: (n,) int, which of the Beginnings.
        wanted: (n,) float, the wanted throughput in multiples of what is expected at best.
        sampled: (n,) bool, whether actions are drawn from the network's odds; else the likeliest.
        limit: (n,) int, most slices that a core may get; 0: any number.
    """

    episode: Array
    wanted: Array
    sampled: Array
    limit: Array


def play_many(
    agent: DecisionTransformer,
    beginnings: Beginnings,
    plays: Plays,
    *,
    seed: int = 0,
    rows: int = 512,
    device: str = "cpu",
) -> Array:
    """The actions of each row.

    Args:
        agent: was fitted to data with observation="paper" and reward="slice".
        seed: of what is sampled.
        rows: at once; less memory with fewer. What is sampled depends on it.
        device: where the network decides, see configs.DEVICES.

    Returns:
        (n, T) int16 tiles.

    Raises:
        CheckpointError: the agent has learned nothing.
        UnsupportedError: it sees more than the paper's tokens, or its return-to-go falls otherwise.
    """
    if agent.network is None:
        raise CheckpointError(f"{agent.name}: call fit() or load a checkpoint first")
    if agent.task["observation"] != "paper" or agent.config.reward != "slice":
        raise UnsupportedError(
            f"{agent.name}: many episodes at once need observation='paper' and reward='slice'; "
            "play one after the other"
        )
    place = find_device(device)
    generator = torch.Generator(place).manual_seed(seed)
    total, parts = len(plays.episode), []
    counters = beginnings.counters.shape[-1]
    agent.network.to(place).eval()
    try:
        with torch.inference_mode():
            expected = None
            if agent.config.falls == "observed":
                meta = beginnings.meta
                facts = np.log1p(
                    np.hstack([meta, np.zeros((len(meta), counters))], dtype=np.float64)
                )
                expected = foresee(facts, np.asarray(agent.task["foresight"]))
            for begin in range(0, total, rows):
                part = slice(begin, min(begin + rows, total))
                parts.append(_actions(agent, beginnings, plays, part, generator, expected))
    finally:
        agent.network.to("cpu")
    return np.concatenate(parts)


def _actions(
    agent: DecisionTransformer,
    beginnings: Beginnings,
    plays: Plays,
    part: slice,
    generator: torch.Generator,
    best: Array | None,
) -> Array:
    """(rows, T) int16 actions of a part of the rows.

    Args:
        best: (E,) Mq/s that is expected at best, where the return-to-go needs it.
    """
    model, device = agent.network, generator.device
    assert model is not None
    episode = plays.episode[part]
    counters = torch.from_numpy(beginnings.counters[episode]).to(device)
    meta = torch.from_numpy(beginnings.meta[episode]).to(device)
    wanted = torch.from_numpy(plays.wanted[part].astype(np.float32)).to(device)
    sampled = torch.from_numpy(plays.sampled[part]).to(device)
    limit = torch.from_numpy(plays.limit[part].astype(np.int64)).to(device)
    expected = None
    if best is not None:
        expected = torch.from_numpy(best[episode].astype(np.float32)).to(device)
    size, steps, kinds = counters.shape
    workers = torch.from_numpy(beginnings.position_mask > 0).to(device)
    held = torch.zeros(size, workers.numel(), dtype=torch.int64, device=device)
    view = torch.zeros(size, workers.numel(), kinds, device=device)
    unseen = torch.zeros(1, 1, workers.numel(), kinds, device=device)
    player = Player(model, size)
    actions = torch.zeros(size, steps, dtype=torch.int64, device=device)
    every = torch.arange(size, device=device)
    for step in range(steps):
        allowed = workers & ((limit == 0)[:, None] | (held < limit[:, None]))
        state = {
            "meta": meta,
            "view_mask": (held > 0).float()[:, None],
            "position_mask": allowed.float()[:, None],
            "machine_view": view[:, None],
            "incumbent_view": unseen,
            "slice_view": unseen[:, :, 0].expand(size, 1, kinds),
        }
        if expected is None:
            left = wanted * (1 - step / steps)
        else:
            left = wanted - view[..., _QUERIES].sum(-1) / expected
        scores = player.scores(state, left, actions[:, step - 1])
        odds = torch.softmax(scores / agent.config.temperature, -1)
        drawn = torch.multinomial(odds, 1, generator=generator)[:, 0]
        chosen = torch.where(sampled, drawn, scores.argmax(-1))
        actions[:, step] = chosen
        held[every, chosen] += 1
        view[every, chosen] += counters[:, step]
    result: Array = actions.to(torch.int16).cpu().numpy()
    return result
