"""Decision Transformer: placement as sequence modelling, conditioned on the wanted throughput.

Chen et al., Decision Transformer, NeurIPS 2021; as P-MOSS uses it (sections 6.3 and 7.1). One token
sequence per episode, 3 T + 1 long:

    meta, R_1, s_1, a_1, R_2, s_2, a_2, ..., R_T, s_T, a_T

with returns-to-go R, states s and actions a; the action is read off at its state's token. A small
convolutional network turns each state's grid of core tiles into one feature vector per tile. All
of them together make the state's token. The action head points at each of them alone, so places on
the chip are never squeezed out. Settings and network are in ``decision_network``; the loss is here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pmoss_agents.agent import Array, Observation
from pmoss_agents.checkpoints import best_path
from pmoss_agents.checks import allowed_actions, check_keys
from pmoss_agents.devices import device_label, find_device, seed_torch
from pmoss_agents.network_agent import NetworkAgent
from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.spatial.base import SpatialAgent, task_of
from pmoss_agents.spatial.decision_network import Config, Model
from pmoss_agents.spatial.decision_player import Player
from pmoss_agents.spatial.encoders import StateEncoder
from pmoss_agents.spatial.episodes import Episodes, check_learnable, layouts_of, parts_of
from pmoss_agents.spatial.observations import Layout, in_full, in_own_counters
from pmoss_agents.spatial.planning.foresight import beginning, foresee
from pmoss_agents.trainer import Course, cosine
from pmoss_agents.weights import torch_threads
from pmoss_datasets import Dataset
from pmoss_datasets.several import Several
from pmoss_env.errors import CheckpointError, DatasetError
from pmoss_env.machines import Machine
from pmoss_env.types import COUNTER_INDEX

_QUERIES = COUNTER_INDEX["queries"]
#: What every mode of observations shows, but "compact".
_SHOWN = ("machine_view", "meta", "position_mask", "view_mask")
ModelT = TypeVar("ModelT", bound=Model)


def imitation_loss(scores: Tensor, actions: Tensor, doubt: float) -> Tensor:
    """The mean over all steps of the cross-entropy, or of its generalised form.

    Zhang and Sabuncu, Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy
    Labels, NeurIPS 2018: (1 - p^q) / q, whose gradient is p^q times that of the plain one.

    Args:
        scores: (B, T, tiles).
        actions: (B, T) the tiles chosen.
        doubt: q, 0 for the plain one.
    """
    scores, actions = scores.flatten(0, 1), actions.flatten()
    if doubt == 0:
        return F.cross_entropy(scores, actions)
    plain = F.cross_entropy(scores, actions, reduction="none")
    return (-torch.expm1(-doubt * plain) / doubt).mean()


class DecisionTransformer(SpatialAgent, NetworkAgent[Dataset]):
    """The agent; see the module's docstring.

    The batch and the dropout of update u depend on the seed and u alone.

    Attributes:
        learned_on: the GPU on which it learned last; None: the CPU.
    """

    name = "decision-transformer"
    several = True
    Config = Config
    NETWORK = "model/"
    network: Model | None

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._best_loss = math.inf
        self.learned_on: str | None = None
        self._player: Player | None = None
        self._rng = np.random.default_rng(self.config.seed)
        self._wanted: float | None = None
        self._static: dict[str, Tensor] = {}
        self.reset()

    # ---- learning

    def task_of(self, dataset: Dataset | Several) -> dict[str, Any]:
        """See OfflineAgent.task_of.

        Several machines share the least grid that holds all of them, and what the config asks
        for. An agent that has learned keeps its grid, and can learn a machine that fits into it.

        Raises:
            DatasetError: several datasets of other slices, orders, observations or counters.
        """
        first, *others = parts = parts_of(dataset)
        task, *tasks = [task_of(part, complete=self.config.complete) for part in parts]
        machine = {"grid", "meta_names"}
        for other, theirs in zip(others, tasks, strict=True):
            if unlike := [k for k in theirs if k not in machine and task.get(k) != theirs[k]]:
                raise DatasetError(
                    f"{other.path}: {unlike[0]}: is not as in {first.path}: {self.name} learns "
                    "from several machines, workloads and loads with the same slices"
                )
        shared = layouts_of(parts)[0]
        grid = np.maximum(shared.grid, (self.config.rows, self.config.cols)).tolist()
        own = {"grid": grid, "meta_names": list(shared.names)}
        if self.task and all(np.less_equal(grid, self.task["grid"])):
            own = {key: self.task[key] for key in own}
        return {**task, **own}

    @contextmanager
    def _course(self, dataset: Dataset | Several) -> Iterator[Course]:
        """Updates of whole episodes; see OfflineAgent.fit.

        Metrics are ``loss`` and ``accuracy`` (agreement with the logged actions). With ``held_out``
        there are also ``held_out_loss`` and ``held_out_accuracy``. Whenever that loss is the lowest
        so far, a second checkpoint is written, see best_path().
        """
        config = self.config
        for part in parts_of(dataset):
            check_learnable(part, config.reward)
        task = self.task_of(dataset)
        if config.reward == "improvement" and task["observation"] == "paper":
            raise DatasetError(
                f"{dataset.path}: was collected with observation='paper', which lacks the "
                "incumbent's throughput that reward='improvement' starts from"
            )
        layouts = layouts_of(parts_of(dataset), task["grid"], task["meta_names"])
        source = Episodes(dataset, config, find_device(config.device), layouts)
        if self.network is None:
            foresight = source.foresight()
            task |= {"meta": source.meta_size, "foresight": foresight.tolist()}

        def set_up(model: Model) -> None:
            model.set_up(source.samples(), source.returns(foresight))

        with self.learning(task, set_up) as device:
            model = self.network
            assert model is not None
            model.see(layouts[0])
            model.train()
            try:
                yield Course(
                    lambda update: self._step(update, source, model, device),
                    config.updates,
                    config.save_every,
                    judge=lambda checkpoint: self._judge(source, checkpoint),
                )
            finally:
                model.eval()
            self._player = None

    def _step(
        self, update: int, source: Episodes, model: Model, device: torch.device
    ) -> Callable[[], dict[str, float]]:
        """One gradient step: the imitation loss over all steps of some whole episodes."""
        config = self.config
        seed_torch(config.seed * 1_000_003 + update, device)  # dropout of this update
        batch = source.batch(update, self._foresight())
        if source.machines > 1:
            model.see(source.layout(source.rows(update)[0]))
        with torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16"):
            scores = model(batch).float()
        actions = batch["actions"]
        loss = self._loss(batch, scores, update)
        self.compute_gradients(
            update, config.learning_rate * _rate(update, config), loss, config.clip
        )
        # Here a GPU is waited for, where an interrupt tears nothing.
        metrics = {"loss": float(loss.detach()), "accuracy": _accuracy(scores, actions)}

        def change() -> dict[str, float]:
            self.optimiser.step()
            self.learned_on = device_label(device)
            return metrics

        return change

    def _loss(self, batch: Mapping[str, Tensor], scores: Tensor, update: int) -> Tensor:
        """() the loss of an update, given the (B, T, tiles) scores of its batch."""
        return imitation_loss(scores, batch["actions"], self.config.doubt)

    def _judge(self, source: Episodes, checkpoint: str | Path | None) -> dict[str, float]:
        """Asks the episodes held out, and keeps the agent if it never did better."""
        if source.held.size == 0:
            return {}
        losses, accuracies = self._agreement(source, source.held)
        loss = float(np.mean(losses))
        if loss < self._best_loss:
            self._best_loss = loss
            if checkpoint is not None:
                self.save(best_path(checkpoint))
        return {"held_out_loss": loss, "held_out_accuracy": float(np.mean(accuracies))}

    def agreement(self, dataset: Dataset | Several) -> tuple[Array, Array]:
        """How well the network predicts the actions of other data.

        Returns:
            (episodes,) float64 losses in nats, and (episodes,) float64 accuracies.

        Raises:
            CheckpointError: there is no network yet, or the dataset is of another task.
        """
        if self.network is None:
            raise CheckpointError(f"{self.name}: call fit() or load a checkpoint first")
        task = self.task_of(dataset)
        self.check_task(task, f"the dataset {dataset.id}")
        config = replace(self.config, held_out=0.0, keep_best=1.0)
        layouts = layouts_of(parts_of(dataset), task["grid"], task["meta_names"])
        with torch_threads(config.threads):
            source = Episodes(dataset, config, layouts=layouts)
            return self._agreement(source, np.arange(source.size))

    def _agreement(self, source: Episodes, rows: Array) -> tuple[Array, Array]:
        """(rows,) losses and (rows,) accuracies of some episodes."""
        assert self.network is not None
        losses, accuracies = np.empty(len(rows)), np.empty(len(rows))
        learning = self.network.training
        self.network.eval()
        with torch.no_grad():
            for number, row in enumerate(rows):
                batch = source.whole([int(row)], self._foresight())
                self.network.see(source.layout(int(row)))
                scores = self.network(batch)
                losses[number] = imitation_loss(scores, batch["actions"], self.config.doubt)
                accuracies[number] = _accuracy(scores, batch["actions"])
        self.network.train(learning)
        return losses, accuracies

    # ---- acting

    def check_env(self, env: Any) -> None:
        """See SpatialAgent.check_env. Of several machines that it learned on it takes this one."""
        super().check_env(env)
        machine = getattr(getattr(env, "unwrapped", env), "machine", None)
        if self.network is not None and isinstance(machine, Machine):
            self.network.see(Layout(machine))
            self._player = None

    def encoders(self) -> list[StateEncoder]:
        """See SpatialAgent.encoders."""
        return [] if self.network is None else [self.network.states]

    def reset(self) -> None:
        """Begins an episode."""
        if self._player is not None:
            self._player.start()
        self._last_action = 0
        self._earned = 0.0
        self._target, self._expected = 0.0, 1.0

    def set_target(self, throughput: float | None) -> None:
        """Sets the wanted throughput.

        Args:
            throughput: Mq/s; None: target_return times what is to be expected of the instance.
        """
        self._wanted = throughput

    def observe(self, reward: float) -> None:
        """Takes the last step's reward (Mq/s) off the return-to-go if that is how it was fitted."""
        if self.config.reward == "improvement":
            self._earned += float(reward)

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """See Agent.act.

        What is drawn depends on the episodes before: one generator serves the agent's whole life.

        Raises:
            CheckpointError: nothing was learned yet, all slices are placed, or the observation
                lacks a key or is of another task.
            DescriptionError: a mask of another length, or one that allows nothing.
        """
        if self.network is None:
            raise CheckpointError(f"{self.name}: call fit() or load a checkpoint first")
        with torch_threads(1), torch.inference_mode():
            if self._player is None:
                self._player = Player(self.network)
            player = self._player
            mode = self.task.get("observation", "full")
            check_keys(self.name, observation, _SHOWN, mode)
            observation = in_own_counters(observation, self.task["counters"])
            if mode == "paper":
                observation = in_full(observation)
            check_keys(self.name, observation, ("slice_view",), mode)
            if player.step >= self.task["slices"]:
                raise CheckpointError(
                    f"{self.name}: all {self.task['slices']} slices are placed: call reset() "
                    "before the next episode"
                )
            if player.step == 0:
                self._start(observation)
            mask = observation["position_mask"] if action_mask is None else action_mask
            allowed_actions(self.name, mask, math.prod(self.task["grid"]))
            counters = observation["machine_view"].reshape(-1, len(self.task["counters"]))
            state = {
                **self._static,
                "view_mask": _tiles(observation["view_mask"]),
                "position_mask": _tiles(mask),
                "machine_view": torch.from_numpy(counters)[None, None],
                "slice_view": torch.from_numpy(observation["slice_view"])[None, None],
            }
            if self.config.reward == "slice" and self.config.falls == "observed":
                self._earned = float(observation["machine_view"][..., _QUERIES].sum())
            wanted = torch.tensor([(self._target - self._earned) / self._expected])
            scores = player.scores(state, wanted, torch.tensor([self._last_action]))
            action = self._choose(scores[0], state, player.step - 1)
        if self.config.reward == "slice" and self.config.falls == "even":
            # The share of the wanted throughput that this slice had of the incumbent's; the mean
            # where the observation lacks it.
            share = 1 / self.task["slices"]
            if self._queries > 0:
                share = float(observation["slice_view"][_QUERIES]) / self._queries
            self._earned += self._target * share
        self._last_action = action
        return action

    def _choose(self, scores: Tensor, state: Mapping[str, Tensor], step: int) -> int:
        """The tile that is taken, given (tiles,) scores at a step from 0 and its state."""
        if self.config.decoding == "greedy":
            return int(scores.argmax())
        odds = torch.softmax(scores.double() / self.config.temperature, -1).numpy()
        return int(self._rng.choice(odds.size, p=odds / odds.sum()))

    def _foresight(self) -> Array:
        """Weights of foresee(); CheckpointError if the task holds none."""
        weights = np.asarray(self.task["foresight"], dtype=np.float64)
        if weights.shape != (1 + self.task["meta"] + len(self.task["counters"]),):
            raise CheckpointError(f"task: foresight: has shape {weights.shape}")
        if not np.isfinite(weights).all():
            raise CheckpointError("task: foresight: is not finite")
        return weights

    def _start(self, observation: Observation) -> None:
        """Reads what stays the same for a whole episode."""
        grid = list(np.shape(observation["position_mask"]))
        view = np.shape(observation.get("incumbent_view", ()))
        facts = {"grid": grid, "meta": int(np.size(observation["meta"]))}
        self.check_task(facts, "the observation")
        if len(view) != 3 or view[-1] != len(self.task["counters"]):
            raise CheckpointError(
                f"{self.name}: incumbent_view has shape {view}: must be ({grid[0]}, {grid[1]}, "
                f"{len(self.task['counters'])}); use observation='full'"
            )
        self._static = {
            "incumbent_view": torch.from_numpy(
                observation["incumbent_view"].reshape(1, 1, -1, view[-1])
            ),
            "meta": torch.from_numpy(observation["meta"])[None],
        }
        if self.config.complete:
            if "slice_counters" not in observation:
                raise CheckpointError(
                    f"{self.name} was fitted with complete = true: use observation='complete'"
                )
            self._static["slice_counters"] = torch.from_numpy(observation["slice_counters"])[None]
        self._queries = float(observation["incumbent_view"][..., _QUERIES].sum())
        facts_of_all = beginning(observation["meta"], observation["incumbent_view"])
        self._expected = float(foresee(facts_of_all, self._foresight()))
        wanted = self._wanted
        if wanted is None:
            wanted = self.config.target_return * self._expected
        # The incumbent's throughput is what its slices serve together.
        self._target = wanted - (self._queries if self.config.reward == "improvement" else 0.0)

    # ---- keeping

    def new_network(self) -> Model:
        """See NetworkAgent.new_network."""
        return self._make(Model)

    def _make(self, kind: type[ModelT]) -> ModelT:
        """A network of a kind for the task."""
        self._foresight()  # refuses what was altered
        rows, cols = self.task["grid"]
        counters, slices = len(self.task["counters"]), self.task["slices"]
        return kind(self.config, (rows, cols), counters, self.task["meta"], slices)

    def new_optimiser(self, network: Model) -> torch.optim.AdamW:
        """See NetworkAgent.new_optimiser."""
        matrices: list[nn.Parameter] = []
        others: list[nn.Parameter] = []
        for name, parameter in network.named_parameters():
            if not parameter.requires_grad:
                continue
            # The embeddings, also those of the critics of QT.
            plain = parameter.ndim < 2 or not {"actions", "places"}.isdisjoint(name.split("."))
            (others if plain else matrices).append(parameter)
        groups = [
            {"params": matrices, "weight_decay": self.config.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=self.config.learning_rate, betas=(0.9, 0.95))

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays, values = super()._state()
        return arrays, {
            **values,
            "best_loss": None if math.isinf(self._best_loss) else self._best_loss,
            "sampling": self._rng.bit_generator.state,
            **({"learned_on": self.learned_on} if self.learned_on else {}),
        }

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        super()._restore(arrays, values)
        assert self.network is not None
        self.network.eval()
        best = values.get("best_loss")
        self._best_loss = math.inf if best is None else float(best)
        self.learned_on = _gpu_of(values)
        self._rng.bit_generator.state = values["sampling"]


def _accuracy(scores: Tensor, actions: Tensor) -> float:
    """The share of actions that have the highest score."""
    return float((scores.argmax(-1) == actions).double().mean())


def _gpu_of(values: Mapping[str, Any]) -> str | None:
    """The GPU that a checkpoint names; CheckpointError if it is no name."""
    if (name := values.get("learned_on", "")) == "":
        return None
    if not isinstance(name, str) or len(name) > 100 or not (name.isascii() and name.isprintable()):
        raise CheckpointError("learned_on: must be the name of a GPU, at most 100 characters")
    return name


def _tiles(mask: Array) -> Tensor:
    return torch.from_numpy(np.asarray(mask, dtype=np.float32).reshape(1, 1, -1))


def _rate(update: int, config: Config) -> float:
    """Linear warm-up, then a cosine from 1 to a tenth."""
    if update < config.warmup:
        return (update + 1) / config.warmup
    done = (update - config.warmup) / max(1, config.updates - config.warmup)
    return cosine(math.pi * min(1.0, done))
