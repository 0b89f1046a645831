"""The online learner of continual scheduling: it learns, repeats, resumes, and acts by itself."""

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

import pmoss_agents  # noqa: E402
from pmoss_agents.continual.ppo_envs import RoundsVecEnv  # noqa: E402
from pmoss_agents.continual.ppo_network import History, RoundActor, epoch_begins, nodes_of  # noqa: E402
from pmoss_datasets.continual.domain import CONTINUAL  # noqa: E402
from pmoss_env.envs.continual import ContinualSchedulingEnv  # noqa: E402
from pmoss_env.envs.continual.vector import ContinualVectorEnv  # noqa: E402
from pmoss_env.errors import (  # noqa: E402
    CheckpointError,
    DescriptionError,
    MissingExtraError,
    UnsupportedError,
)
from pmoss_env.machines import load_machine  # noqa: E402
from pmoss_env.types import COUNTER_NAMES  # noqa: E402

#: Where an episode begins badly, one move to the other node serves half as much again.
TOY = {
    "machine": "toy",
    "slices": 8,
    "drift": "none",
    "epochs": 10,
    "moves_per_epoch": 2,
    "incumbent": "random",
    "workload_seed": 1,
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


def test_an_untrained_network_stays_and_draws_moves_evenly():
    machine = load_machine("toy")
    torch.manual_seed(0)
    actor = RoundActor(nodes_of(machine), H, 8)
    env = ContinualSchedulingEnv(machine="toy", slices=8)
    seen, _ = env.reset(seed=1)
    rows = {key: value[None] for key, value in seen.items()}
    past = History(1, nodes_of(machine), H)
    past.take(rows, epoch_begins(rows))
    parts = {key: torch.from_numpy(part) for key, part in past.show(rows).items()}
    with torch.no_grad():
        slices, tokens = actor(parts)
        tiles = actor.tiles(parts, tokens, torch.tensor([2]))
        assert actor.likeliest(parts)[0] == 8
    odds = slices[0].exp().numpy()
    np.testing.assert_allclose(odds[:8], odds[0], rtol=1e-5)
    assert odds[8] == pytest.approx(np.e / (np.e + 1.0))
    of_workers = machine.worker_tiles / machine.workers.size
    np.testing.assert_allclose(tiles[0].exp().numpy(), of_workers, rtol=1e-5)


def test_one_seed_gives_one_agent():
    first, second, other = (fitted(seed=seed) for seed in (1, 1, 2))
    for key, array in arrays(first).items():
        np.testing.assert_array_equal(array, arrays(second)[key], err_msg=key)
    assert any(not np.array_equal(array, arrays(other)[k]) for k, array in arrays(first).items())


def test_every_parameter_learns():
    before = {key: array.copy() for key, array in arrays(fitted(steps=32, seed=3)).items()}
    after = arrays(fitted(steps=128, seed=3))
    moments = [key for key in after if key.endswith("/exp_avg_sq")]
    assert moments and all(after[key].max() > 0 for key in moments)
    assert any(not np.array_equal(before[key], after[key]) for key in before)


def test_a_stopped_training_ends_as_one_that_was_not(tmp_path):
    def stop(done, total, metrics):
        if done == 2:
            raise KeyboardInterrupt

    path = tmp_path / "agent.safetensors"
    whole = fitted()
    with pytest.raises(KeyboardInterrupt):
        pmoss_agents.make("continual-ppo", **TINY).fit(DRIFTING, progress=stop, checkpoint=path)
    resumed, done = pmoss_agents.load(path), []
    resumed.fit(DRIFTING, progress=lambda now, total, metrics: done.append(now))
    assert done == [3, 4]
    for key, array in arrays(whole).items():
        np.testing.assert_array_equal(array, arrays(resumed)[key], err_msg=key)


def test_it_comes_back_from_a_file_and_keeps_its_masks(agent, tmp_path):
    agent.save(tmp_path / "agent.safetensors")
    again = pmoss_agents.load(tmp_path / "agent.safetensors")
    one, other = played(agent), played(again)
    assert one.actions == other.actions and one.outcome == other.outcome
    # on_illegal="raise": a forbidden move would have ended it.
    assert one.illegal_actions == 0 and len(one.actions) > DRIFTING["epochs"]


def test_the_masks_that_are_given_count(agent):
    env = ContinualSchedulingEnv(**DRIFTING)
    seen, info = env.reset(seed=1)
    agent.reset()
    slice_, tile = agent.act(seen, info["action_mask"])
    mask = info["action_mask"].copy()
    mask[[slice_, 9 + tile]] = 0
    agent.reset()
    other, elsewhere = agent.act(seen, mask)
    assert other != slice_ and elsewhere != tile and mask[[other, 9 + elsewhere]].all()
    mask[:8] = 0
    assert agent.act(seen, mask)[0] == 8


def test_it_acts_without_stable_baselines(agent, tmp_path):
    agent.save(tmp_path / "agent.safetensors")
    program = (
        "import sys\n"
        "for name in ('stable_baselines3', 'sb3_contrib'):\n"
        "    sys.modules[name] = None\n"
        "import pmoss_agents\n"
        "from pmoss_datasets.continual.domain import CONTINUAL\n"
        f"agent = pmoss_agents.load({str(tmp_path / 'agent.safetensors')!r})\n"
        f"env = CONTINUAL.make_env({DRIFTING!r})\n"
        "print(CONTINUAL.play(env, agent, 3).actions)\n"
    )
    run = [sys.executable, "-c", program]
    told = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert told == f"{played(agent).actions}\n"


def test_training_sees_what_acting_sees():
    env = {**DRIFTING, "epochs": 3}
    envs = RoundsVecEnv(2, counters=H, usual=2.0, scale=4.0, **env)
    single = ContinualVectorEnv(1, autoreset_mode="SameStep", **env)
    past = History(1, nodes_of(load_machine("toy")), H)
    envs.seed(5)
    shown = envs.reset()
    seen, _ = single.reset(seed=6)  # the second row's
    past.take(seen, epoch_begins(seen))
    rng, ended, paid = np.random.default_rng(0), 0, []
    for _ in range(16):
        for key, part in past.show(seen).items():
            np.testing.assert_array_equal(shown[key][1], part[0], err_msg=key)
        slice_ = int(rng.choice(np.flatnonzero([*seen["slice_mask"][0][:8], 1])))
        action = np.array([slice_, int(rng.choice([1, 2, 3, 5, 6, 7]))])
        shown, rewards, ends, infos = envs.step(np.array([[8, 1], action]))
        seen, reward, _, truncated, info = single.step(action[None])
        if truncated[0]:
            ended += 1
            last = {key: value[None] for key, value in info["final_obs"][0].items()}
            past.take(last, epoch_begins(last))
            for key, part in past.show(last).items():
                np.testing.assert_array_equal(infos[1]["terminal_observation"][key], part[0])
            assert ends[1] and infos[1]["TimeLimit.truncated"]
            past.forget(truncated)
        past.take(seen, epoch_begins(seen))
        expected = (reward[0] - 2.0) / 4.0 if epoch_begins(seen)[0] else 0.0
        assert rewards[1] == pytest.approx(expected, rel=1e-5)
        paid.append(rewards[1])
    assert ended and 0.0 in paid and not all(one == 0.0 for one in paid)
    envs.close()
    single.close()


def test_an_idle_core_is_remembered():
    past = History(1, nodes_of(load_machine("toy")), H)
    env = ContinualVectorEnv(1, **{**TOY, "epochs": 8})
    seen, _ = env.reset(seed=1)
    past.take(seen, epoch_begins(seen))
    tile = int(seen["slice_tiles"][0, 0])
    served = past.show(seen)["last"][0, tile]
    while (there := np.flatnonzero(seen["slice_tiles"][0] == tile)).size:
        other = 1 if tile != 1 else 2
        seen = env.step(np.array([[there[0], other]]))[0]
        past.take(seen, epoch_begins(seen))
    for _ in range(2):
        seen = env.step(np.array([[8, 0]]))[0]
        past.take(seen, epoch_begins(seen))
    shown = past.show(seen)
    assert shown["age"][0, tile] >= 2 and shown["last"][0, tile].any() and served.any()
    past.forget(np.array([True]))
    assert not past.show(seen)["last"].any() and not past.show(seen)["age"].any()


def test_its_weights_fit_any_machine_and_number_of_slices():
    shapes = []
    for name, slices in (("toy", 8), ("skylake-x-8n", 256)):
        env = {"machine": name, "slices": slices, "epochs": 2}
        agent = fitted(env, steps=8, envs=2, rollout=4, epochs=1, batch_size=8)
        shapes.append({key: array.shape for key, array in arrays(agent).items()})
        assert played(agent, env=env).illegal_actions == 0
    assert shapes[0] == shapes[1]


def test_what_is_of_another_task_is_refused(agent):
    for other, fact in (
        ({"slices": 9}, "slices"),
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


def test_what_cannot_be_learned_is_refused(monkeypatch, tmp_path):
    agent = pmoss_agents.make("continual-ppo", **TINY)
    with pytest.raises(UnsupportedError, match="analytic"):
        agent.fit({**DRIFTING, "backend": "simulated"})
    with pytest.raises(CheckpointError, match="nothing to save"):
        agent.save(tmp_path / "agent.safetensors")
    with pytest.raises(CheckpointError, match="call fit"):
        agent.act({})
    for config in (
        *({name: 0} for name in ("width", "steps", "envs", "epochs", "threads")),
        *({"rollout": 1}, {"batch_size": 1}, {"learning_rate": float("nan")}, {"clip": 0.0}),
        *({"gamma": 1.5}, {"gae_lambda": -0.1}, {"entropy": -1.0}, {"target_kl": 0.0}),
    ):
        with pytest.raises(DescriptionError, match=next(iter(config))):
            pmoss_agents.make("continual-ppo", **config)
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    with pytest.raises(MissingExtraError, match=r"pmoss-env\[online\]"):
        agent.fit(DRIFTING)


def test_a_discount_of_one_is_possible():
    assert fitted(gamma=1.0, steps=32).updates == 1
