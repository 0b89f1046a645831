import json
import math
import os
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from pmoss_benchmarks.leaderboard import confinement
from pmoss_benchmarks.leaderboard.messages import pack, pack_context, unpack, unpack_context
from pmoss_benchmarks.leaderboard.players import IsolatedPolicy, Limits
from pmoss_benchmarks.leaderboard.submissions import read_submission
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import EpisodeResult, evaluate
from pmoss_env.backends.child_process import Child, Wording
from pmoss_env.errors import DescriptionError, PlatformError, PolicyError
from tests.benchmarks.leaderboard.conftest import REFUSED, TASK, TIER

HandIn = Callable[..., Path]
KEY = bytes(32)
#: Where a process is refused what it is promised, nothing plays.
pytestmark = pytest.mark.usefixtures("confined")

#: What keeps a process from being confined, as the code before its main().
HINDRANCES = {
    "a thread": "import threading, time; "
    "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
    "no filters": "import errno; from pmoss_benchmarks.leaderboard import confinement\n"
    "def refuse(library): raise OSError(errno.EINVAL, 'no filters')\n"
    "confinement._filter = refuse",
}


def player(folder: Path, limits: Limits | None = None) -> IsolatedPolicy:
    submission = read_submission(folder)
    agent = submission.agent(TASK)
    assert agent is not None
    env = TIER.env_of(TASK)
    return IsolatedPolicy(agent, submission.folder, find_domain("spatial"), env, KEY, limits)


def play(folder: Path) -> EpisodeResult:
    with closing(player(folder)) as policy:
        (row,) = evaluate(TIER.env_of(TASK), {"it": policy}, [1], 1, 50, 5).rows
    return row


def test_what_is_sent_comes_back_as_it_was() -> None:
    env = find_domain("spatial").make_env(TIER.env_of(TASK))
    observation, _ = env.reset(seed=3)
    again = unpack(pack(observation))
    assert all(
        again[k].dtype == v.dtype and np.array_equal(again[k], v) for k, v in observation.items()
    )
    context = env.context(np.random.default_rng(5))
    back = unpack_context(pack_context(context, KEY))
    assert back.incumbent == context.incumbent or np.array_equal(
        back.incumbent.cores, context.incumbent.cores
    )
    assert np.array_equal(back.snapshot.slice_counters, context.snapshot.slice_counters)
    env.close()


def test_a_players_chance_repeats_and_leads_back_to_no_episode() -> None:
    with closing(find_domain("spatial").make_env(TIER.env_of(TASK))) as env:
        env.reset(seed=3)

        def packed(key: bytes) -> str:
            return json.dumps(pack_context(env.context(np.random.default_rng(5)), key))

        assert packed(KEY) == packed(KEY) != packed(b"1" * 32)
        # A generator's state would be its seed, and the snapshot's seed leads to the episode's.
        plain = packed(KEY)
        assert not {"bit_generator", "inc", "state"} & set(json.loads(plain))
        assert str(env.incumbent_snapshot.provenance["seed"]) not in plain


def test_a_policy_that_plans_gets_the_episode(hand_in: HandIn) -> None:
    # It keeps the incumbent, in a process that has its own environment.
    row = play(hand_in("submitted_module:Plans"))
    assert row.throughput == row.incumbent_throughput


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("NotANumber", "answers no action: action 'NaN'"),
        ("Masked", "which the mask forbids"),
        ("Raises", "raises KeyError"),
        ("Dies", "ended with status 7"),
        ("Breaks", "nothing to load"),
        ("Missing", "Missing"),
        ("Talks", "sent no message"),
        ("AnswersAtLength", "answers no action"),
        ("TakesMemory", "raises MemoryError"),
    ],
)
def test_a_bad_policy_is_a_typed_error(hand_in: HandIn, agent: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        play(hand_in(f"submitted_module:{agent}"))


@pytest.fixture
def kept(confined: bool) -> None:
    """Skips where no policy is confined."""
    if not confined:
        pytest.skip("this kernel confines nothing")


@pytest.mark.parametrize("agent", REFUSED)
def test_the_kernel_keeps_a_policy_where_it_is(hand_in: HandIn, agent: str, kept: None) -> None:
    with closing(player(hand_in(f"submitted_module:{agent}"))) as policy:
        assert policy.confined
        with pytest.raises(PolicyError, match="raises PermissionError"):
            policy.reset()


@pytest.mark.parametrize("agent", ["HasNoCapability", "ReadsItsFolder"])
def test_a_confined_policy_may_work_and_no_more(hand_in: HandIn, agent: str, kept: None) -> None:
    with closing(player(hand_in(f"submitted_module:{agent}"))) as policy:
        policy.reset()


@pytest.mark.parametrize("hindrance", HINDRANCES)
def test_a_process_that_is_not_confined_loads_nothing(hand_in, kept, hindrance):
    folder = hand_in("submitted_module:First")
    (folder / "submitted_module.py").write_text("print('it was imported')")
    code = f"import os\n{HINDRANCES[hindrance]}\nfrom pmoss_benchmarks.leaderboard import "
    code += "player_process\nplayer_process.main(os.getppid())"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-P", "-c", code]
    start = {"word": "submitted_module:First", "folder": str(folder), "executes": True}
    start |= {"domain": "spatial", "env": TIER.env_of(TASK), "memory_bytes": 16 << 30}
    start |= {"threads": 256}
    with closing(Child(words, Wording("the child"), environment=environment)) as child:
        answer = child.ask({**start, "confines": True}, 60.0)
        assert list(answer) == ["unconfined"] and hindrance.split()[-1] in answer["unconfined"]
        assert not any("it was imported" in line for line in child.log_tail())


def test_a_policy_that_is_not_confined_is_a_typed_error(hand_in, monkeypatch):
    monkeypatch.setattr(Child, "ask", lambda *_: {"unconfined": "no filters"})
    with pytest.raises(PlatformError, match=r"the policy is not loaded.*: no filters"):
        player(hand_in())


def test_a_policy_cannot_say_that_it_is_confined(hand_in, monkeypatch):
    monkeypatch.setattr("pmoss_benchmarks.leaderboard.players.can_confine", lambda: False)
    policy = player(hand_in("submitted_module:SaysItIsConfined"))
    policy.close()
    assert not policy.confined


def test_without_filters_a_kernel_confines_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    call = confinement._call

    def without(function: object, *words: object) -> int:
        if words[0] in confinement._ASKS_FILTERS:
            raise OSError("no such system call")
        return call(function, *words)

    monkeypatch.setattr(confinement, "_call", without)
    assert not confinement.can_confine()
    with pytest.raises(PlatformError, match="no filters of system calls"):
        confinement.confine([])


def test_a_policy_has_so_many_threads_and_no_more(hand_in: HandIn, kept: None) -> None:
    with (
        closing(player(hand_in("submitted_module:StartsThreads"), Limits(threads=50))) as policy,
        pytest.raises(PolicyError, match="raises RuntimeError: 50: can't start new thread"),
    ):
        policy.reset()


@pytest.mark.parametrize(
    "limits",
    [
        *({"episode_seconds": value} for value in (1e20, math.inf, math.nan, 0.0, -1.0)),
        *({"memory_bytes": value} for value in (0, 1 << 80)),
        {"threads": 0},
    ],
)
def test_limits_have_bounds(limits: dict[str, float]) -> None:
    (name,) = limits
    with pytest.raises(DescriptionError, match=f"{name} = .*: must be from"):
        Limits(**limits)


def test_a_policy_that_hangs_is_killed(hand_in: HandIn) -> None:
    with closing(player(hand_in("submitted_module:Hangs"), Limits(episode_seconds=0.2))) as policy:
        with pytest.raises(PolicyError, match="more than its time in an episode"):
            policy.reset()
        with pytest.raises(ProcessLookupError):
            os.kill(policy._child.process_id, 0)
        policy.close()
