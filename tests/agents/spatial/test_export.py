"""An exported policy does what the agent does."""

import io
import json
import re
import struct
import zipfile

import gymnasium
import pytest

import pmoss_agents
from pmoss_env.errors import CheckpointError
from tests.agents.spatial.playing import BUSY, TRANSFORMER, play

torch = pytest.importorskip("torch")

from pmoss_agents.spatial.decision_network import STATE  # noqa: E402
from pmoss_agents.spatial.decision_transformer import DecisionTransformer  # noqa: E402
from pmoss_agents.spatial.export import export_policy, export_weights, load_policy  # noqa: E402


@pytest.fixture
def path(fitted, tmp_path):
    """An exported policy."""
    export_policy(fitted, tmp_path / "policy.pt")
    return tmp_path / "policy.pt"


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
    agent = DecisionTransformer(**TRANSFORMER, **changes, decoding=decoding)
    agent.fit(dataset)
    export_policy(agent, tmp_path / "policy.pt")
    exported = pmoss_agents.load(tmp_path / "policy.pt", trust=True)
    assert [play(exported, BUSY, s) for s in range(3)] == [play(agent, BUSY, s) for s in range(3)]
    assert [path.name for path in tmp_path.iterdir()] == ["policy.pt"]


def test_the_file_is_enough(fitted, path):
    """PyTorch and the header alone give an action."""
    extra = {"pmoss.json": ""}
    step = torch.jit.load(str(path), _extra_files=extra)
    header = json.loads(extra["pmoss.json"])
    assert header["inputs"] == [*STATE, "return_to_go", "action", "step", "cache"]
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **BUSY)
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
    fitted.reset()
    fitted.set_target(None)
    assert int(scores.argmax()) == fitted.act(observation)


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


def test_what_is_no_exported_policy_is_refused(fitted, tmp_path):
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
    export_policy(fitted, path)
    whole = path.read_bytes()
    contents = contents_of(path)
    for position in middles_of_the_largest_entries(path):
        data = bytearray(whole)
        data[position] ^= 1
        path.write_bytes(bytes(data))
        # A compressed text can repeat itself from another place: the same contents, then.
        if contents_of(path) != contents:
            with pytest.raises(CheckpointError, match="cannot be read as TorchScript: "):
                load_policy(path, trust=True)


@pytest.mark.parametrize(
    ("entry", "old", "new"),
    [
        ("/modules/linear", rb"  training :", b"  trainimg :"),
        ("/constants/0", rb"(?s).+", b"\1" * 8),
        ("/extra/pmoss.json", rb'"foresight": \[', b'"foresight": [[1, [2]], '),
    ],
)
def test_a_program_with_other_parts_is_a_typed_error(path, entry, old, new):
    """The sums of the container are right, so that only PyTorch or the program can tell."""
    contents = contents_of(path)
    with zipfile.ZipFile(path, "w") as file:
        for name, content in contents.items():
            file.writestr(name, re.sub(old, new, content) if entry in name else content)
    with pytest.raises(CheckpointError):
        play(load_policy(path, trust=True), BUSY)


def contents_of(path):
    """What every entry of the container holds; None if one is damaged."""
    try:
        with zipfile.ZipFile(path) as file:
            return {name: file.read(name) for name in file.namelist()}
    except Exception:
        return None


class Vandal(torch.nn.Module):
    """Writes a file as soon as it is loaded, if it is scripted and saved."""

    def __init__(self, trace):
        super().__init__()
        self.trace = trace
        self.kept = torch.zeros(1)

    def forward(self, x: torch.Tensor):
        return x

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:
        return self.trace, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.trace, self.training = state
        self.kept = torch.from_file(self.trace, shared=True, size=4)


@pytest.mark.parametrize("described", [True, False])
def test_a_program_runs_only_with_trust(path, tmp_path, described):
    trace = tmp_path / "written"
    with zipfile.ZipFile(path) as file:
        header = file.read(header_name(file))
    buffer = io.BytesIO()
    extra = {"pmoss.json": header} if described else {}
    torch.jit.save(torch.jit.script(Vandal(str(trace))), buffer, _extra_files=extra)
    trace.unlink(missing_ok=True)
    path.write_bytes(buffer.getvalue())
    for load in (pmoss_agents.load, pmoss_agents.find_policy):
        with pytest.raises(CheckpointError, match=r"--trust|is not an exported policy"):
            load(str(path))
    assert not trace.exists()
    torch.jit.load(str(path))
    assert trace.exists()  # this is why


def header_name(file):
    return next(name for name in file.namelist() if name.endswith("/extra/pmoss.json"))


def test_weights_alone_act_as_the_agent_does(fitted, tmp_path):
    fitted.save(tmp_path / "agent.safetensors")
    export_weights(fitted, tmp_path / "weights.safetensors")
    again = pmoss_agents.load(tmp_path / "weights.safetensors")
    assert play(again, BUSY) == play(fitted, BUSY)
    sizes = [(tmp_path / f"{name}.safetensors").stat().st_size for name in ("weights", "agent")]
    assert sizes[0] < sizes[1] / 2


@pytest.mark.parametrize(
    "change",
    [{"task": "a text"}, {"cache_shape": [2**40]}, {"cache_shape": "x"}, {"config": {"width": 0}}],
)
def test_an_altered_description_is_refused(path, change):
    with zipfile.ZipFile(path) as file:
        entries = {name: file.read(name) for name in file.namelist()}
        name = header_name(file)
    entries[name] = json.dumps({**json.loads(entries[name]), **change}).encode()
    with zipfile.ZipFile(path, "w") as file:
        for entry, data in entries.items():
            file.writestr(entry, data)
    with pytest.raises(CheckpointError, match=r"policy\.pt: "):
        load_policy(path, trust=True)


def test_an_exported_policy_cannot_learn(fitted, path, dataset, tmp_path):
    exported = load_policy(path, trust=True)
    with pytest.raises(CheckpointError, match="cannot learn"):
        exported.fit(dataset)
    with pytest.raises(CheckpointError, match="no checkpoint to save"):
        exported.save(tmp_path / "agent.safetensors")
    with pytest.raises(CheckpointError, match=r"policy\.pt: is the name of an export"):
        fitted.save(path)
