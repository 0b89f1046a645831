"""Settings of a Decision Transformer: the network's sizes, how it learns and how it acts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pmoss_agents.configs import LATER, checker
from pmoss_agents.spatial.encoders import GROUPS, check_groups
from pmoss_env.envs.spatial.env import REWARDS

PRECISIONS = ("float32", "bfloat16")
#: A gigabyte of them, four while it learns.
MOST_WEIGHTS = 2**28


@dataclass(frozen=True)
class Config:
    """Settings of a Decision Transformer; the defaults are the paper's model (section 7.1).

    Attributes:
        layers: transformer blocks.
        heads: attention heads.
        width: embedding size.
        channels: features per core tile in the state encoder.
        joint: features in which a tile, its state and the wanted return meet.
        context: steps that a token may look back on, its own included; 256 is all of an episode
            with 256 slices. The meta token is always in sight.
        dropout: probability, on residual branches.
        meta_position: "first", or "last": just before the last step, as the paper shows it.
        inputs: groups of inputs that the network sees, see inputs.GROUPS.
        reward: the return-to-go. "terminal": the wanted throughput, the same at each step.
            "slice": the paper's; what each placed slice is expected to serve is taken off.
            "improvement": what is still to be gained; needs observe(reward) after each step.
        target_return: wanted throughput at use, in multiples of what is foreseen for the instance.
        expectile: what is foreseen is this expectile of the data's final throughputs.
        shuffle_cores: give cores of one node and last-level cache other places in every batch. A
            tie among them is then learned as a tie, not as the place that a rule preferred.
        doubt: q of the generalised cross-entropy (1 - p^q) / q, below 1; 0 is the plain one. An
            action that the model finds unlikely, as those of searches are, then teaches by p^q
            less. A mixture of behaviours is learned by its sharpest part.
        held_out: share of the episodes that are not trained on but tell which checkpoint is best.
        keep_best: share of the episodes trained on, best final throughput first; 1 keeps all.
        updates: gradient steps.
        batch_size: whole episodes per update.
        learning_rate: of AdamW, after warm-up; then a cosine down to a tenth.
        warmup: updates of linear warm-up.
        weight_decay: of matrices; biases, norms and embeddings have none.
        clip: largest norm of the gradient.
        decoding: "greedy" or "sample".
        temperature: of sampling.
        seed: of weights, order of episodes, dropout and sampling.
        threads: of torch in fit(); act() uses one, because its steps are too small to share.
        device: where it learns, one of configs.DEVICES; it acts on the CPU.
        precision: of products and attention in fit(). "bfloat16" pays where the processor or the
            GPU has instructions for it; weights and the loss stay in float32, and act() always
            does.
        save_every: updates between checkpoints, if fit() is given a place for them.
    """

    layers: int = 6
    heads: int = 8
    width: int = 128
    channels: int = 32
    joint: int = 32
    context: int = 256
    dropout: float = 0.1
    meta_position: Literal["first", "last"] = "first"
    inputs: tuple[str, ...] = GROUPS
    reward: Literal["improvement", "slice", "terminal"] = "terminal"
    target_return: float = 1.1
    expectile: float = 0.95
    shuffle_cores: bool = False
    doubt: float = 0.0
    held_out: float = 0.0
    keep_best: float = 1.0
    updates: int = 1000
    batch_size: int = 4
    learning_rate: float = 6e-4
    warmup: int = 50
    weight_decay: float = 0.1
    clip: float = 1.0
    decoding: Literal["greedy", "sample"] = "greedy"
    temperature: float = 1.0
    seed: int = 0
    threads: int = 1
    device: str = field(default="cpu", metadata=LATER)
    precision: Literal["float32", "bfloat16"] = field(default="float32", metadata=LATER)
    save_every: int = 100

    def __post_init__(self) -> None:
        check = checker("decision-transformer", self)
        groups = check_groups(self.inputs, "decision-transformer: inputs")
        object.__setattr__(self, "inputs", groups)
        counts = (
            "layers",
            "heads",
            "width",
            "channels",
            "joint",
            "context",
            "updates",
            "batch_size",
        )
        for name in (*counts, "save_every"):
            check(name, getattr(self, name) >= 1, "be at least 1")
        check("width", self.width % self.heads == 0, f"be a multiple of heads = {self.heads}")
        weights = 12 * self.layers * self.width**2
        check("width", weights <= MOST_WEIGHTS, f"give at most {MOST_WEIGHTS} weights")
        for name in ("warmup", "weight_decay"):
            check(name, getattr(self, name) >= 0, "not be negative")
        check("dropout", 0 <= self.dropout < 1, "lie in [0, 1)")
        check("expectile", 0 < self.expectile < 1, "lie in (0, 1)")
        check("doubt", 0 <= self.doubt < 1, "lie in [0, 1)")
        check("held_out", 0 <= self.held_out < 1, "lie in [0, 1)")
        check("keep_best", 0 < self.keep_best <= 1, "lie in (0, 1]")
        check("meta_position", self.meta_position in ("first", "last"), "be 'first' or 'last'")
        check("reward", self.reward in REWARDS, f"be one of {REWARDS}")
        check("precision", self.precision in PRECISIONS, f"be one of {', '.join(PRECISIONS)}")
        check("decoding", self.decoding in ("greedy", "sample"), "be 'greedy' or 'sample'")
        for name in ("target_return", "learning_rate", "clip", "temperature"):
            check(name, getattr(self, name) > 0, "be above 0")
