"""What a dataset of steps holds, beside the environment that is stepped again."""

import numpy as np
import pytest


def check_steps(domain, dataset, action_of=int):
    """Asserts that every stored step is the live one; yields each episode with its last info."""
    dataset.verify()
    env, expander = domain.make_env(dataset.metadata.env_kwargs), dataset.expander()
    assert expander.space == env.observation_space
    for episode in dataset:
        rollout = domain.rerun(env, episode.seed, episode.actions.tolist())
        assert rollout.outcome == episode.outcome and rollout.illegal_actions == 0
        assert rollout.total == pytest.approx(episode.rewards.sum())
        observation, info = env.reset(seed=episode.seed)
        expanded = expander.observations(episode, last=True)
        masks, over = expander.masks(episode, last=True), False
        for t in range(episode.steps + 1):
            for key, value in observation.items():
                np.testing.assert_array_equal(expanded[key][t], value)
            np.testing.assert_array_equal(masks[t], info["action_mask"])
            assert over == (t == episode.steps)
            for name, values in episode.infos.items():
                if name in info:
                    assert values[t] == info[name]
            if not over:
                observation, reward, ended, cut, info = env.step(action_of(episode.actions[t]))
                assert reward == episode.rewards[t]
                over = ended or cut
        yield episode, info
    env.close()
