"""An exported policy does what the agent does."""

import io
import json
import struct
import zipfile

import gymnasium
import pytest

import pmoss_agents
import pmoss_env  # noqa: F401 (registers the environments)
from pmoss_datasets import Recipe, collect
from pmoss_env.errors import CheckpointError
from tests.agents.spatial.playing import play

torch = pytest.importorskip("torch")

from pmoss_agents.spatial.decision_network import STATE  # noqa: E402
from pmoss_agents.spatial.decision_transformer import DecisionTransformer  # noqa: E402
from pmoss_agents.spatial.export import export_policy, load_policy  # noqa: E402

TOY = {"machine": "toy", "slices": 8, "interference": "busy_core", "order": "load"}
SMALL = {"layers": 2, "heads": 2, "width": 16, "channels": 8, "updates": 4, "warmup": 2}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    recipe = Recipe(env=TOY, episodes=12, seed=1, tier="mixed", reference_episodes=0)
    return collect(recipe, tmp_path_factory.mktemp("data") / "dataset")


@pytest.mark.parametrize(
    ("meta_position", "reward", "context", "decoding"),
    [
        ("first", "terminal", 256, "greedy"),
        ("last", "slice", 256, "sample"),
        ("first", "improvement", 3, "sample"),
        ("last", "terminal", 2, "greedy"),
    ],
)
def test_an_exported_policy_gives_the_same_actions(
    dataset, tmp_path, meta_position, reward, context, decoding
):
    changes = {"meta_position": meta_position, "reward": reward, "context": context}
    agent = DecisionTransformer(**SMALL, **changes, decoding=decoding)
    agent.fit(dataset)
    export_policy(agent, tmp_path / "policy.pt")
    exported = pmoss_agents.load(tmp_path / "policy.pt")
    assert [play(exported, TOY, s) for s in range(3)] == [play(agent, TOY, s) for s in range(3)]
    assert [path.name for path in tmp_path.iterdir()] == ["policy.pt"]


def test_the_file_is_enough(dataset, tmp_path):
    """PyTorch and the header alone give an action."""
    agent = DecisionTransformer(**SMALL)
    agent.fit(dataset)
    export_policy(agent, tmp_path / "policy.pt")
    extra = {"pmoss.json": ""}
    step = torch.jit.load(str(tmp_path / "policy.pt"), _extra_files=extra)
    header = json.loads(extra["pmoss.json"])
    assert header["inputs"] == [*STATE, "return_to_go", "action", "step", "cache"]
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **TOY)
    observation, _ = env.reset(seed=0)
    tiles, counters = 8, len(header["task"]["counters"])
    shapes = {"machine_view": (tiles, counters), "incumbent_view": (tiles, counters)}
    state = [
        torch.from_numpy(observation[name]).float().reshape(shapes.get(name, (-1,)))
        for name in STATE
    ]
    target = torch.tensor(header["config"]["target_return"])
    cache = torch.zeros(header["cache_shape"])
    with torch.no_grad():
        scores = step(*state, target, torch.tensor(0), torch.tensor(0), cache)
    agent.reset()
    assert int(scores.argmax()) == agent.act(observation)


def middles_of_the_largest_entries(path):
    """Where the middle byte of the largest stored and of the largest compressed entry lies."""
    with zipfile.ZipFile(path) as file:
        entries = sorted(file.infolist(), key=lambda entry: entry.compress_size)
    data = path.read_bytes()
    positions = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        entry = [entry for entry in entries if entry.compress_type == method][-1]
        # The local header has lengths of its own: PyTorch pads each entry there.
        name, extra = struct.unpack_from("<HH", data, entry.header_offset + 26)
        positions.append(entry.header_offset + 30 + name + extra + entry.compress_size // 2)
    return positions


def test_what_is_no_exported_policy_is_refused(dataset, tmp_path):
    path = tmp_path / "policy.pt"
    with pytest.raises(CheckpointError, match="nothing to export"):
        export_policy(DecisionTransformer(), path)
    with pytest.raises(CheckpointError, match="does not exist"):
        load_policy(path)
    path.write_bytes(b"nothing of ours")
    with pytest.raises(CheckpointError, match="cannot be read as TorchScript"):
        load_policy(path)
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), buffer)
    path.write_bytes(buffer.getvalue())
    with pytest.raises(CheckpointError, match="is not an exported policy"):
        load_policy(path)
    agent = DecisionTransformer(**SMALL)
    agent.fit(dataset)
    export_policy(agent, path)
    whole = path.read_bytes()
    for position in middles_of_the_largest_entries(path):
        data = bytearray(whole)
        data[position] ^= 1
        path.write_bytes(bytes(data))
        with pytest.raises(CheckpointError, match="cannot be read as TorchScript: "):
            load_policy(path)


def test_an_exported_policy_cannot_learn(dataset, tmp_path):
    agent = DecisionTransformer(**SMALL)
    agent.fit(dataset)
    export_policy(agent, tmp_path / "policy.pt")
    exported = load_policy(tmp_path / "policy.pt")
    with pytest.raises(CheckpointError, match="cannot learn"):
        exported.fit(dataset)
    with pytest.raises(CheckpointError, match="no checkpoint to save"):
        exported.save(tmp_path / "agent.safetensors")
    with pytest.raises(CheckpointError, match=r"policy\.pt: is the name of an export"):
        agent.save(tmp_path / "policy.pt")
