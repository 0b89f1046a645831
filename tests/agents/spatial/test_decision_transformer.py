"""The Decision Transformer: its network, its decoding and its learning."""

import os
import re
import subprocess
import sys
from dataclasses import fields

import gymnasium
import numpy as np
import pytest

import pmoss_agents
import pmoss_env  # noqa: F401 (registers the environments)
from pmoss_agents.configs import CONFIGS, identity, read_config
from pmoss_datasets import Recipe, collect, open_dataset
from pmoss_env.errors import CheckpointError, DatasetError, DescriptionError, UnknownNameError
from pmoss_env.machines import load_machine
from tests.agents.spatial.small_transformer import SMALL, TOY, play, weights

torch = pytest.importorskip("torch")

from pmoss_agents.spatial.decision_network import STATE, Config, Decoder, Step  # noqa: E402
from pmoss_agents.spatial.decision_player import Player  # noqa: E402
from pmoss_agents.spatial.decision_transformer import (  # noqa: E402
    DecisionTransformer,
    imitation_loss,
)
from pmoss_agents.spatial.encoders import FORBIDDEN  # noqa: E402
from pmoss_agents.spatial.episodes import Episodes, alike_tiles  # noqa: E402


@pytest.mark.parametrize("meta_position", ["first", "last"])
def test_every_parameter_gets_a_gradient(dataset, meta_position):
    agent = DecisionTransformer(**{**SMALL, "meta_position": meta_position, "updates": 1})
    agent.fit(dataset)
    batch = Episodes(dataset, agent.config).batch(0)
    agent.network.zero_grad()
    scores = agent.network(batch)
    torch.nn.functional.cross_entropy(scores.flatten(0, 1), batch["actions"].flatten()).backward()
    for name, parameter in agent.network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def exported_form(model):
    step = Step(model)
    return Decoder(step, step.cache_shape)


@pytest.mark.parametrize("context", [1, 3, 256])
@pytest.mark.parametrize("meta_position", ["first", "last"])
@pytest.mark.parametrize("reward", ["terminal", "slice", "improvement"])
def test_cached_decoding_equals_the_whole_sequence(dataset, meta_position, reward, context):
    choice = {"meta_position": meta_position, "reward": reward, "context": context}
    agent = DecisionTransformer(**{**SMALL, **choice, "updates": 2})
    agent.fit(dataset)
    batch = Episodes(dataset, agent.config).batch(0, agent._foresight())
    with torch.inference_mode():
        whole = agent.network(batch)[0]
        decoder, player = exported_form(agent.network), Player(agent.network)
        action = 0
        for t in range(dataset.steps):
            state = {name: batch[name][0] for name in STATE}
            state |= {
                name: batch[name][0, t]
                for name in ("view_mask", "position_mask", "machine_view", "slice_view")
            }
            state["incumbent_view"] = state["incumbent_view"][0]
            wanted = float(batch["returns"][0, t])
            scores = decoder.scores(state, wanted, action)
            played = player.scores(state, wanted, action)
            action = int(batch["actions"][0, t])
            torch.testing.assert_close(scores, whole[t], rtol=1e-4, atol=1e-4)
            assert scores.argmax() == whole[t].argmax()
            torch.testing.assert_close(played, scores, rtol=1e-6, atol=1e-6)
            assert played.argmax() == scores.argmax()


@pytest.mark.parametrize("inputs", [["slice"], ["core", "node"], ["cache", "machine", "topology"]])
def test_playing_needs_no_input_of_all(dataset, inputs):
    agent = DecisionTransformer(**{**SMALL, "inputs": inputs, "updates": 2})
    agent.fit(dataset)
    chosen = []
    for form in (exported_form, Player):
        agent.use(form(agent.network))
        chosen.append([play(agent) for _ in range(2)])
    assert chosen[0] == chosen[1]


def test_playing_follows_the_weights_of_later_updates(dataset):
    agent = DecisionTransformer(**{**SMALL, "updates": 2})
    agent.fit(dataset)
    agent.use(player := Player(agent.network))
    play(agent)
    with torch.no_grad():
        agent.network.plain.bias[:] = torch.linspace(50.0, -50.0, agent.network.plain.bias.numel())
    after = play(agent)
    agent.use(exported_form(agent.network))
    assert play(agent) == after
    assert player.step == dataset.steps


def test_no_step_sees_what_comes_later(fitted, dataset):
    batch = Episodes(dataset, fitted.config).batch(0)
    with torch.inference_mode():
        before = fitted.network(batch)
        batch["actions"][:, 5:] = 1
        batch["machine_view"][:, 6:] = 0
        batch["returns"][:, 6:] = 9
        after = fitted.network(batch)
    torch.testing.assert_close(before[:, :6], after[:, :6])
    assert not torch.equal(before[:, 6:], after[:, 6:])


def test_a_short_context_sees_no_further_back(dataset):
    agent = DecisionTransformer(**{**SMALL, "layers": 1, "context": 2, "updates": 1})
    agent.fit(dataset)
    batch = Episodes(dataset, agent.config).batch(0)
    with torch.inference_mode():
        before = agent.network(batch)
        batch["actions"][:, 3] = 1 + batch["actions"][:, 3] % 3
        after = agent.network(batch)
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.equal(before[:, 4], after[:, 4])
    torch.testing.assert_close(before[:, 5:], after[:, 5:])


@pytest.mark.parametrize("decoding", ["greedy", "sample"])
def test_forbidden_tiles_are_never_chosen(dataset, decoding):
    agent = DecisionTransformer(**{**SMALL, "decoding": decoding, "temperature": 100.0})
    agent.fit(dataset)
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **TOY)
    rng = np.random.default_rng(0)
    for seed in range(4):
        observation, info = env.reset(seed=seed)
        agent.reset()
        done = False
        while not done:
            mask = info["action_mask"] * (rng.random(info["action_mask"].size) < 0.4)
            if not mask.any():
                mask = info["action_mask"]
            action = agent.act(observation, mask)
            assert mask[action]
            observation, _, done, _, info = env.step(action)
    batch = Episodes(dataset, agent.config).batch(0)
    scores = agent.network(batch)
    assert (scores[batch["position_mask"] == 0] == FORBIDDEN).all()


def test_constraints_hold_without_remapping(tmp_path):
    kwargs = {**TOY, "slices": 12, "constraints": {"max_slices_per_core": 2}}
    dataset = collect(
        Recipe(env=kwargs, episodes=12, tier="heuristic", reference_episodes=0), tmp_path / "d"
    )
    agent = DecisionTransformer(**SMALL)
    agent.fit(dataset)
    actions, _ = play(agent, kwargs)
    assert np.bincount(actions).max() == 2


def test_same_seed_same_weights_and_actions(dataset, fitted):
    again, other = DecisionTransformer(**SMALL), DecisionTransformer(**{**SMALL, "seed": 1})
    torch.manual_seed(99)  # nobody else's chance matters
    again.fit(dataset)
    other.fit(dataset)
    for name, value in weights(fitted).items():
        np.testing.assert_array_equal(value, weights(again)[name], err_msg=name)
    assert play(fitted) == play(again)
    assert any(not np.array_equal(v, weights(other)[n]) for n, v in weights(fitted).items())


def test_products_of_half_the_width_teach_nearly_the_same(dataset, fitted):
    half, again = (DecisionTransformer(**{**SMALL, "precision": "bfloat16"}) for _ in range(2))
    metrics = half.fit(dataset)
    again.fit(dataset)
    whole = weights(fitted)
    for name, value in weights(half).items():
        assert value.dtype == whole[name].dtype
        np.testing.assert_array_equal(value, weights(again)[name], err_msg=name)
    assert any(not np.array_equal(v, whole[n]) for n, v in weights(half).items())
    assert metrics["loss"] == pytest.approx(DecisionTransformer(**SMALL).fit(dataset)["loss"], 0.1)
    with pytest.raises(DescriptionError, match="precision = 'float8': must be one of float32"):
        DecisionTransformer(precision="float8")


def test_a_setting_that_was_added_later_counts_only_where_it_is_set():
    assert "precision" not in identity(Config())
    assert identity(Config(precision="bfloat16"))["precision"] == "bfloat16"
    others = {field.name for field in fields(Config)} - {"device", "precision"}
    assert set(identity(Config())) == others


def test_agreement_is_of_each_episode(dataset, fitted):
    losses, rights = fitted.agreement(dataset)
    assert losses.shape == rights.shape == (len(dataset),)
    assert (losses > 0).all() and ((rights >= 0) & (rights <= 1)).all()
    # What is held out of learning is judged alike.
    held = DecisionTransformer(**{**SMALL, "held_out": 0.5})
    metrics = held.fit(dataset)
    rows = Episodes(dataset, held.config).held
    again, _ = held.agreement(dataset)
    assert metrics["held_out_loss"] == pytest.approx(again[rows].mean())
    with pytest.raises(CheckpointError, match="call fit"):
        DecisionTransformer(**SMALL).agreement(dataset)


def test_sampling_has_its_own_generator(dataset):
    agents = []
    for _ in range(2):
        agent = DecisionTransformer(**{**SMALL, "decoding": "sample"})
        agent.fit(dataset)
        np.random.seed(len(agents))  # noqa: NPY002 (the point is that it does not matter)
        agents.append([play(agent, seed=s)[0] for s in range(3)])
    assert agents[0] == agents[1]


def test_fitting_leaves_the_global_state_alone(dataset):
    torch.manual_seed(5)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    DecisionTransformer(**{**SMALL, "threads": 2}).fit(dataset)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("reward", ["terminal", "slice"])
def test_the_papers_observation_is_learned_from_and_nothing_else_is_seen(reward, tmp_path):
    recipe = Recipe(env={**TOY, "observation": "paper"}, episodes=6, reference_episodes=0)
    data = collect(recipe, tmp_path / "paper")
    agent = DecisionTransformer(**SMALL, reward=reward)
    agent.fit(data)
    actions = play(agent, {**TOY, "observation": "paper"})
    assert play(agent, TOY) == actions
    with pytest.raises(CheckpointError, match="observation = paper, but the environment has"):
        agent.check_env(gymnasium.make("pmoss/SpatialScheduling-v0", **TOY))
    with pytest.raises(DatasetError, match="lacks the incumbent's throughput"):
        DecisionTransformer(**SMALL, reward="improvement").fit(data)


def test_without_torch_the_extra_is_named():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import pmoss_agents, pmoss_datasets, pmoss_datasets.formats\n"
        "from pmoss_env.errors import MissingExtraError\n"
        "try: pmoss_agents.make('decision-transformer')\n"
        "except MissingExtraError as error: print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert "pmoss-env[agents]" in done.stdout


def test_an_agent_that_knows_nothing_says_so(tmp_path):
    agent = DecisionTransformer()
    with pytest.raises(CheckpointError, match="nothing to save"):
        agent.save(tmp_path / "agent.safetensors")
    with pytest.raises(CheckpointError, match="call fit"):
        play(agent)


def test_learns_the_toy(dataset):
    agent = DecisionTransformer(**{**SMALL, "updates": 150, "dropout": 0.0})
    agent.fit(open_dataset(dataset.path))
    seeds = range(1000, 1012)
    reached = np.mean([play(agent, seed=seed)[1] for seed in seeds])
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **TOY)
    rng = np.random.default_rng(0)
    random = []
    for seed in seeds:
        _, info = env.reset(seed=seed)
        done = False
        while not done:
            action = rng.choice(np.flatnonzero(info["action_mask"]))
            _, _, done, _, info = env.step(action)
        random.append(info["throughput"])
    assert reached > 1.15 * np.mean(random)


def follows_the_return(agent, weight=1.0):
    """Rebuilds the network: tiles with low numbers win if the wanted return is above the mean.

    Its one block attends to all tokens alike. Only those of returns-to-go are not zero.
    """
    with torch.no_grad():
        for name, parameter in agent.network.named_parameters():
            if "norm" not in name:
                parameter.zero_()
        model, width = agent.network, agent.config.width
        # gelu(x) - gelu(-x) = x
        model.returns[0].weight[:2, 0] = torch.tensor([1.0, -1.0])
        model.returns[2].weight[0, :2] = weight * torch.tensor([1.0, -1.0])
        for block in model.blocks:
            block.qkv.weight[2 * width :] = torch.eye(width)
            block.out.weight[:] = torch.eye(width)
        model.plain.weight[:, 0] = torch.linspace(1.0, -1.0, len(model.plain.weight))
        model.returns_mean.fill_(0.5)
        model.returns_std.fill_(0.1)
    agent.reset()
    agent.use(exported_form(agent.network))
    return agent


@pytest.mark.parametrize("weight", [1.0, 0.0])
def test_the_wanted_return_changes_the_actions(fitted, tmp_path, weight):
    fitted.save(tmp_path / "agent.safetensors")
    agent = pmoss_agents.load(tmp_path / "agent.safetensors")
    follows_the_return(agent, weight)
    play(agent)
    best = agent._expected
    env = gymnasium.make("pmoss/SpatialScheduling-v0", on_illegal="raise", **TOY)
    _, info = env.reset(seed=0)
    allowed = np.flatnonzero(info["action_mask"])
    assert allowed.size > 1
    chosen = {}
    for share in (0.0, 1.0):
        agent.set_target(share * best)
        chosen[share] = play(agent)[0]
    if weight:
        assert (chosen[1.0][0], chosen[0.0][0]) == (allowed[0], allowed[-1])
    else:
        assert chosen[1.0] == chosen[0.0]  # a network without the token cannot tell


def test_without_a_wish_a_share_of_the_best_is_wanted(fitted):
    for wish in (3.0, None):
        fitted.set_target(wish)
        play(fitted)
        share = fitted.config.target_return * fitted._expected
        assert fitted._target == pytest.approx(share if wish is None else wish)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"width": 10, "heads": 4}, "width = 10: must be a multiple of heads"),
        ({"layers": 0}, "layers = 0"),
        ({"target_return": float("nan")}, "target_return = nan"),
        ({"meta_position": "middle"}, "meta_position = 'middle': must be one of first, last"),
        ({"keep_best": 0}, "keep_best = 0"),
        ({"depth": 3}, "config 'depth': unknown"),
        ({"learning_rate": "abc"}, "learning_rate = 'abc': must be a finite number"),
        ({"save_every": "abc"}, "save_every = 'abc': must be a whole number"),
        ({"save_every": 2.5}, r"save_every = 2\.5"),
        ({"warmup": 1.5}, r"warmup = 1\.5"),
        ({"dropout": None}, "dropout = None"),
        ({"weight_decay": float("inf")}, "weight_decay = inf"),
        ({"keep_best": [1]}, r"keep_best = \[1\]"),
        ({"layers": True}, "layers = True"),
        ({"shuffle_cores": "no"}, "shuffle_cores = 'no': must be true or false"),
        ({"inputs": ["best-fit"]}, r"inputs = \['best-fit'\]: must be a list of some of slice"),
        ({"reward": ["terminal"]}, r"reward = \['terminal'\]"),
        ({"seed": -1}, "seed = -1"),
        ({"seed": 2**32}, r"seed = 4294967296: must lie in \[0, 2\^32\)"),
        ({"threads": 100_000}, "threads = 100000: must lie between 1 and 1024"),
    ],
)
def test_wrong_configs_are_named(config, text):
    with pytest.raises(DescriptionError, match=text):
        DecisionTransformer(**config)


@pytest.mark.parametrize("field", fields(Config), ids=lambda field: field.name)
def test_every_field_of_the_wrong_type_is_named(field):
    for value in ("abc", None, [1], {}):
        with pytest.raises(DescriptionError, match=re.escape(f"{field.name} = {value!r}: must")):
            DecisionTransformer(**{field.name: value})


def test_the_registry(tmp_path):
    assert "decision-transformer" in pmoss_agents.agent_names()
    with pytest.raises(UnknownNameError, match="Did you mean 'decision-transformer'"):
        pmoss_agents.make("decision-transfromer")
    with pytest.raises(DescriptionError, match="known are"):
        pmoss_agents.make("decision-transformer", config_file="absent")
    path = tmp_path / "config.toml"
    path.write_text('agent = "decision-transformer"\nlayers = 3\nwidth = 64\n')
    agent = pmoss_agents.make("decision-transformer", config_file=path, layers=1)
    for text, reason in (
        (b'agent = ["a"]', "agent = .*: must be a string"),
        (b"\xff\xfe", "is not valid TOML"),
    ):
        (tmp_path / "wrong.toml").write_bytes(text)
        with pytest.raises(DescriptionError, match=rf"wrong\.toml: {reason}"):
            pmoss_agents.make("decision-transformer", config_file=tmp_path / "wrong.toml")
    assert (agent.config.layers, agent.config.width) == (1, 64)
    for committed in CONFIGS.glob("*.toml"):
        name = read_config(committed.stem)["agent"]
        pmoss_agents.make(name, config_file=committed.stem)


def test_shuffled_cores_are_the_same_episode_elsewhere(dataset):
    config = Config(**{**SMALL, "shuffle_cores": True})
    source, plain = Episodes(dataset, config), Episodes(dataset, Config(**SMALL))
    moved = 0
    for update in range(4):
        new, old = source.batch(update), plain.batch(update)
        again = source.batch(update)
        assert all(torch.equal(new[key], again[key]) for key in new)
        moved += int((new["actions"] != old["actions"]).sum())
        for i, t in np.ndindex(*new["actions"].shape):
            at, was = int(new["actions"][i, t]), int(old["actions"][i, t])
            assert dataset.machine.node_of_core[at] == dataset.machine.node_of_core[was]
            for key in ("view_mask", "position_mask", "machine_view"):
                assert torch.equal(new[key][i, t, at], old[key][i, t, was])
            assert torch.equal(new["incumbent_view"][i, 0, at], old["incumbent_view"][i, 0, was])
        assert torch.equal(new["slice_view"], old["slice_view"])
    assert moved > 0


@pytest.mark.parametrize("machine", ["toy", "skylake-x-8n", "milan-nps4", "xeon-6240m-optane"])
def test_only_cores_that_are_alike_trade_places(machine):
    described = load_machine(machine)
    seen = []
    for tiles in alike_tiles(described):
        cores = described.core_of_tile[tiles]
        assert described.worker_mask[cores].all()
        assert np.unique(described.node_of_core[cores]).size == 1
        assert np.unique(described.llc_of_core[cores]).size == 1
        seen += tiles.tolist()
    assert len(seen) == len(set(seen))


def test_doubt_weighs_what_is_unlikely_less():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, 5, generator=generator).requires_grad_()
    actions = torch.tensor([[0, 1, 2], [3, 4, 0]])
    plain, tiny = (imitation_loss(scores, actions, q) for q in (0.0, 1e-4))
    assert float(tiny) == pytest.approx(float(plain), rel=1e-3)
    odds = torch.softmax(scores, -1).gather(-1, actions[..., None])
    (of_plain,) = torch.autograd.grad(plain, scores)
    (of_doubt,) = torch.autograd.grad(imitation_loss(scores, actions, 0.6), scores)
    torch.testing.assert_close(of_doubt, of_plain * odds.detach() ** 0.6)
