"""Run by test_d3rlpy.py where d3rlpy and the Gymnasium it pins can be imported."""

import sys
import tempfile
from pathlib import Path

import d3rlpy
import gymnasium
import numpy as np

import pmoss_env  # noqa: F401 (registers the environments)
from pmoss_datasets import Recipe, collect
from pmoss_datasets.formats.d3rlpy import score_buffer, to_d3rlpy
from pmoss_datasets.formats.files import write_d3rlpy
from pmoss_datasets.spatial.expansion import Expander, rewards
from pmoss_env.errors import DatasetError, DescriptionError

TASK = {"machine": "toy", "slices": 8, "reward": "terminal"}
root = Path(tempfile.mkdtemp(dir=sys.argv[1]))
recipe = Recipe(env=TASK, episodes=5, reference_episodes=2, reference_budget=50)
dataset = collect(recipe, root / "dataset")

# There: the boundaries, the values, the action size.
expander = Expander(dataset)
for form in ("tuple", "flat"):
    data = to_d3rlpy(dataset, "improvement", observation=form)
    assert data.size() == 5 and data.dataset_info.action_size == dataset.machine.tiles
    for theirs, mine in zip(data.episodes, dataset, strict=True):
        assert theirs.terminated and len(theirs) == 8
        np.testing.assert_array_equal(theirs.actions[:, 0], mine.actions)
        paid = rewards(mine, "improvement").astype(np.float32)
        np.testing.assert_array_equal(theirs.rewards[:, 0], paid)
        seen = expander.observations(mine)
        if form == "tuple":
            for theirs_part, key in zip(theirs.observations, expander.space.spaces, strict=True):
                assert theirs_part.dtype == seen[key].dtype
                np.testing.assert_array_equal(theirs_part, seen[key])
        else:
            for t in range(8):
                shown = {key: value[t] for key, value in seen.items()}
                flat = gymnasium.spaces.flatten(expander.space, shown)
                np.testing.assert_array_equal(theirs.observations[t], flat)

# It learns from the flat form.
data = to_d3rlpy(dataset, observation="flat")
algo = d3rlpy.algos.DiscreteCQLConfig(batch_size=8).create(device=False)
losses = algo.fit(
    data,
    n_steps=4,
    n_steps_per_epoch=4,
    logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
    show_progress=False,
)
assert len(losses) == 1 and np.isfinite(losses[0][1]["loss"])
assert algo.predict(data.episodes[0].observations[:1]).shape == (1,)

# And back: what d3rlpy collects by itself can be scored.
env = gymnasium.wrappers.FlattenObservation(gymnasium.make("pmoss/SpatialScheduling-v0", **TASK))
explorer = d3rlpy.algos.DiscreteRandomPolicyConfig().create(device=False)
buffer = d3rlpy.dataset.create_fifo_replay_buffer(100, env=env)
found = explorer.collect(env, buffer=buffer, n_steps=24, show_progress=False)
scores = score_buffer(found, dataset)
assert scores.returns.shape == (3,)
np.testing.assert_array_equal(scores.scores, dataset.normalized_score(scores.returns))
assert scores.illegal_actions.sum() > 0  # the explorer knows no masks
for theirs, mine in zip(score_buffer(data, dataset).returns, dataset, strict=True):
    assert theirs == np.float32(mine.final_throughput)
assert not score_buffer(data, dataset).illegal_actions.any()

other = Recipe(env={**TASK, "slices": 9}, episodes=1, reference_episodes=0)
try:
    score_buffer(to_d3rlpy(collect(other, root / "other")), dataset)
except DatasetError as error:
    assert "buffer: episode 0: terminals: 9 steps" in str(error)
else:
    raise AssertionError("episodes of another task were scored")
try:
    to_d3rlpy(dataset, episodes=[])
except DescriptionError as error:
    assert "episodes: none" in str(error)
else:
    raise AssertionError("a buffer of no episodes")

# As a file: what d3rlpy reads back is what was written.
write_d3rlpy(dataset, root / "new" / "buffer.h5")
with open(root / "new" / "buffer.h5", "rb") as file:
    loaded = d3rlpy.dataset.ReplayBuffer.load(file, d3rlpy.dataset.InfiniteBuffer())
for one, other in zip(loaded.episodes, data.episodes, strict=True):
    np.testing.assert_array_equal(one.observations, other.observations)
print(d3rlpy.__version__, gymnasium.__version__)
