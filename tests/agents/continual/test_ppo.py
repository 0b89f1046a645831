"""The online learner of continual scheduling: it learns, repeats, resumes, and acts by itself."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

import pmoss_agents  # noqa: E402
from pmoss_agents.continual.ppo_envs import RoundsVecEnv  # noqa: E402
from pmoss_agents.continual.ppo_network import History, epoch_begins, nodes_of  # noqa: E402
from pmoss_datasets.continual.domain import CONTINUAL  # noqa: E402
from pmoss_env.envs.continual import ContinualSchedulingEnv  # noqa: E402
from pmoss_env.envs.continual.vector import ContinualVectorEnv  # noqa: E402
from pmoss_env.errors import CheckpointError, DescriptionError, UnsupportedError  # noqa: E402
from pmoss_env.machines import load_machine  # noqa: E402
from pmoss_env.types import COUNTER_NAMES  # noqa: E402

#: Where an episode begins badly, one move to the other node serves half as much again.
TOY = {
    **{"machine": "toy", "slices": 8, "drift": "none", "epochs": 10},
    **{"moves_per_epoch": 2, "incumbent": "random", "workload_seed": 1},
}
DRIFTING = {**TOY, "drift": "busy-cores", "noise": 1.0, "on_illegal": "raise", "epochs": 6}
TINY = {"width": 8, "steps": 128, "envs": 4, "rollout": 8, "epochs": 2, "batch_size": 16}
H = len(COUNTER_NAMES)


def fitted(env=DRIFTING, **config):
    agent = pmoss_agents.make("continual-ppo", **{**TINY, **config})
    agent.fit(env)
    return agent


@pytest.fixture(scope="module")
def agent():
    """It has played, and would rather move something than leave it for now."""
    agent = fitted()
    with torch.no_grad():
        agent._arrays["policy.actor.leave_score.bias"][:] = -20.0
        agent.actor.leave_score.bias.fill_(-20.0)
    return agent


def played(agent, seed=3, env=DRIFTING):
    return CONTINUAL.play(CONTINUAL.make_env(env), agent, seed)


def arrays(agent):
    return agent._state()[0]


def test_it_learns_the_move_that_helps():
    config = {"width": 16, "envs": 16, "rollout": 64, "batch_size": 128, "learning_rate": 3e-3}
    agent = fitted(TOY, **config, epochs=4, steps=3072)
    seeds = range(8)
    stay = np.mean([played(CONTINUAL.policy("stay"), seed, TOY).outcome for seed in seeds])
    assert np.mean([played(agent, seed, TOY).outcome for seed in seeds]) > 1.1 * stay


def test_it_comes_back_from_a_file_and_keeps_its_masks(agent, tmp_path):
    agent.save(tmp_path / "agent.safetensors")
    again = pmoss_agents.load(tmp_path / "agent.safetensors")
    before, after = played(agent), played(again)
    assert before.actions == after.actions and before.outcome == after.outcome
    # on_illegal="raise": a forbidden move would have ended it.
    assert before.illegal_actions == 0 and len(before.actions) > DRIFTING["epochs"]


def test_training_sees_what_acting_sees():
    env = {**DRIFTING, "epochs": 3}
    envs = RoundsVecEnv(2, counters=H, usual=2.0, scale=4.0, **env)
    single = ContinualVectorEnv(1, autoreset_mode="SameStep", **env)
    past = History(1, nodes_of(load_machine("toy")), H)
    envs.seed(5)
    shown = envs.reset()
    rows, _ = single.reset(seed=6)  # the second row's
    past.take(rows, epoch_begins(rows))
    rng, ended, paid = np.random.default_rng(0), 0, []
    for _ in range(16):
        for key, part in past.show(rows).items():
            np.testing.assert_array_equal(shown[key][1], part[0], err_msg=key)
        slice_ = int(rng.choice(np.flatnonzero([*rows["slice_mask"][0][:8], 1])))
        action = np.array([slice_, int(rng.choice([1, 2, 3, 5, 6, 7]))])
        shown, rewards, ends, infos = envs.step(np.array([[8, 1], action]))
        rows, reward, _, truncated, info = single.step(action[None])
        if truncated[0]:
            ended += 1
            last = {key: value[None] for key, value in info["final_obs"][0].items()}
            past.take(last, epoch_begins(last))
            for key, part in past.show(last).items():
                np.testing.assert_array_equal(infos[1]["terminal_observation"][key], part[0])
            assert ends[1] and infos[1]["TimeLimit.truncated"]
            past.forget(truncated)
        past.take(rows, epoch_begins(rows))
        expected = (reward[0] - 2.0) / 4.0 if epoch_begins(rows)[0] else 0.0
        assert rewards[1] == pytest.approx(expected, rel=1e-5)
        paid.append(rewards[1])
    assert ended and 0.0 in paid and any(paid)
    envs.close()
    single.close()


def test_its_weights_fit_any_machine_and_number_of_slices():
    shapes = []
    for name, slices in (("toy", 8), ("skylake-x-8n", 32)):
        env = {"machine": name, "slices": slices, "epochs": 2}
        agent = fitted(env, steps=8, envs=2, rollout=4, epochs=1, batch_size=8)
        shapes.append({key: array.shape for key, array in arrays(agent).items()})
        assert played(agent, env=env).illegal_actions == 0
    assert shapes[0] == shapes[1]


def test_what_is_of_another_task_is_refused(agent):
    for other, fact in (
        ({"machine": "skylake-x-8n"}, "grid"),
        ({"counters": "software"}, "readable"),
    ):
        env = ContinualSchedulingEnv(**{**DRIFTING, **other})
        with pytest.raises(CheckpointError, match=rf"continual-ppo was fitted for {fact} = "):
            agent.check_env(env)
        with pytest.raises(CheckpointError, match=fact):
            agent.fit({**DRIFTING, **other})
    env = ContinualSchedulingEnv(**{**DRIFTING, "slices": 9})
    with pytest.raises(CheckpointError, match="slices"):
        agent.act(env.reset(seed=0)[0])


def test_what_cannot_be_learned_is_refused():
    agent = pmoss_agents.make("continual-ppo", **TINY)
    with pytest.raises(UnsupportedError, match="analytic"):
        agent.fit({**DRIFTING, "backend": "simulated"})
    with pytest.raises(CheckpointError, match="call fit"):
        agent.act({})
    for config in (
        *({"rollout": 1}, {"batch_size": 1}, {"clip": 0.0}),
        *({"gamma": 1.5}, {"gae_lambda": 1.1}, {"target_kl": 0.0}),
    ):
        with pytest.raises(DescriptionError, match=next(iter(config))):
            pmoss_agents.make("continual-ppo", **config)
