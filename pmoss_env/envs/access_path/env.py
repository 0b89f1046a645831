"""Access-path selection: chooses how each table scan reads its data."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from pmoss_env.checks import check_name, check_number, check_options, check_type, check_whole
from pmoss_env.envs.access_path.scans import PATHS, Background, ScanDistribution, Scans
from pmoss_env.envs.access_path.simulated import SimulatedScans
from pmoss_env.envs.actions import whole_action
from pmoss_env.envs.base import ON_ILLEGAL, RENDER_MODES, SEEDS, BaseEnv
from pmoss_env.errors import DescriptionError, IllegalActionError
from pmoss_env.machines import Machine
from pmoss_env.noise import Noise
from pmoss_env.types import BoolArray, Float64Array, Int8Array

Observation = dict[str, npt.NDArray[Any]]
REWARDS = ("time", "saving")
CPU, OFFLOAD, RELAXED = range(len(PATHS))
#: The keys of info, at reset and at every step.
INFO_KEYS = (
    "action_mask",
    "illegal_actions",
    "scan",
    "path",
    "run_time_us",
    "total_time_us",
    "correct",
)
_MOST_SCANS = 10_000_000
#: Finite upper bounds of the features, above all drawn or modelled values.
_HIGHEST = np.array([4e6, 1e5, 1e6, 1e4, 1e4], dtype=np.float32)


class AccessPathEnv(BaseEnv[Observation, np.int64]):
    """Choose the access path of each table scan on a server with copy engines.

    ## Description

    A database scans columns of 32-bit integers and writes the positions of the matching values. The
    core may load remote lines itself, or use the copy engine of its blade's hub. The engine copies
    blocks into two local buffers; the core scans one while the other is filled. The engine keeps
    more lines in flight but must be set up. It copies at the same rate from every distance, even
    from its own node, and is shared. Run times come from a discrete-event simulation of the machine
    (``pmoss_env.envs.access_path.SimulatedScans``).

    This is the decision of Dreseler et al., Adaptive Access Path Selection for
    Hardware-Accelerated DRAM Loads (sections 4 to 6).

    ## Observation Space

    A ``Dict``:

    | key | shape, type | meaning |
    |---|---|---|
    | `features` | (5,) float32 | of the next scan, see below; 0 at the end |
    | `action_mask` | (A,) int8 | 1 = the path may be taken |

    The features are those of the paper, ``pmoss_env.envs.access_path.FEATURES``: data size (10^6
    bytes), idle latency between the nodes (ns) and result size (million positions). The others are
    the background's traffic on the links and by the engine (GB/s), read right before the scan.

    ## Action Space

    ``Discrete(2)``: 0 loads ("cpu"), 1 copies ("offload"). With ``relaxed=True``
    ``Discrete(3)``: 2 copies without coherence. **Its results may be wrong** (the paper's were,
    section 6); then ``info["correct"]`` is False. It is legal only for columns that are not
    written. The mask of legal paths is in ``observation["action_mask"]``, ``info["action_mask"]``
    and ``action_masks()``. On a masked path ``on_illegal`` decides: "remap" copies coherently,
    "terminate" ends the episode with reward 0 and no scan, "raise" raises IllegalActionError. Under
    "time" such an end saves the time of all scans that are left: learn with another one.
    Illegal actions are counted in ``info["illegal_actions"]``.

    ## Rewards

    - "time": minus the run time in milliseconds; the return is minus the time of all scans.
    - "saving": 1 - run time / run time of the processor's own loads: 0 for "cpu". Each step then
      runs two simulations. Noise is a factor of both times, so that it leaves this reward alone.

    ## Starting State

    ``reset`` draws all scans of the episode from its seed: nodes, sizes, results, the read-only
    columns, and the background, a random walk from scan to scan. As the traffic changes, the order
    of the scans matters, and a policy that learns meets a shifting distribution.

    ## Episode End

    ``terminated`` after the last scan, or after an illegal action with ``on_illegal="terminate"``.
    Never ``truncated``.

    ## Information

    The same keys at reset and at every step:

    - ``action_mask``: (A,) int8, the legal paths of the next scan.
    - ``illegal_actions``: int, in this episode so far.
    - ``scan``: int, number of the next scan; ``scans`` at the end.
    - ``path``: int, path of the latest scan; -1 at reset.
    - ``run_time_us``: float, of the latest scan; 0 at reset.
    - ``total_time_us``: float, of all scans so far.
    - ``correct``: bool, whether all results so far are reliable.

    ## Arguments

    All are plain JSON, so that ``env.spec.to_json()`` works.

    - ``machine``: a machine with copy engines ("uv-300h"), or a path to such a machine's file.
    - ``scans``: number of scans in an episode.
    - ``relaxed``: whether the third path is offered.
    - ``reward``: "time" or "saving".
    - ``drift``: step size of the background's random walk, 0 (constant) to 1.
    - ``noise``: strength of the measurement noise (``pmoss_env.noise``) on run times; 1 is as on
      hardware.
    - ``on_illegal``: "remap", "terminate" or "raise".
    - ``distribution``: None, or fields of ``pmoss_env.envs.access_path.ScanDistribution``.
    - ``render_mode``: "ansi" or "rgb_array"; ``gymnasium.make`` takes "human", too.

    Raises ``UnknownNameError`` for a name in no catalogue, ``UnsupportedError`` for a machine
    without copy engines, and ``DescriptionError`` for any other invalid value.

    ## References

    Dreseler, Gasda, Kossmann, Uflacker and Plattner, Adaptive Access Path Selection for
    Hardware-Accelerated DRAM Loads.

    ## Version History

    - v0: first version.
    """

    metadata = BaseEnv.metadata | {"render_fps": 8}

    def __init__(
        self,
        *,
        machine: str = "uv-300h",
        scans: int = 64,
        relaxed: bool = False,
        reward: str = "time",
        drift: float = 0.15,
        noise: float = 0.0,
        on_illegal: str = "remap",
        distribution: dict[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        check_name("reward", reward, REWARDS)
        check_name("on_illegal", on_illegal, ON_ILLEGAL)
        if render_mode is not None:
            check_name("render_mode", render_mode, RENDER_MODES)
        check_whole("scans", scans, 1, _MOST_SCANS)
        check_type("relaxed", bool, relaxed)
        check_number("drift", drift, 0.0, 1.0)
        Noise(noise, (0,))
        check_type("machine", str, machine)
        field_names = [field.name for field in fields(ScanDistribution)]
        if not isinstance(distribution, dict | None):
            raise DescriptionError(f"distribution = {distribution!r}: must be a dict, or None")
        for name in distribution or {}:
            check_name("field of distribution", name, field_names)
        self._distribution = ScanDistribution(**(distribution or {}))
        self._simulated = SimulatedScans(machine)
        self._n = scans
        self.reward = reward
        self._drift = float(drift)
        self._noise = float(noise)
        self._on_illegal = on_illegal
        self._actions = 3 if relaxed else 2
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(self._actions)
        self.observation_space = cast(
            spaces.Space[Observation],
            spaces.Dict(
                {
                    "features": spaces.Box(np.zeros(5, np.float32), _HIGHEST),
                    "action_mask": spaces.Box(0, 1, (self._actions,), np.int8),
                }
            ),
        )
        self._running = False
        self._scans: Scans | None = None
        self._features = np.zeros((scans + 1, 5), dtype=np.float32)
        self._seeds = np.zeros(scans, dtype=np.uint64)
        self._readings = np.ones(scans)
        self._read_only = np.zeros(scans + 1, dtype=np.bool_)
        self._times_by_path: dict[int, float] = {}
        self._step = 0
        self._illegal_actions = 0
        self._path = -1
        self._run_time_us = 0.0
        self._correct = True
        self._paths = np.full(scans, -1, dtype=np.int8)
        self._times = np.zeros(scans)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode; see the class's section on the starting state.

        Args:
            seed: of all randomness of the episode; None continues the generator.
            options: must be None or empty.

        Raises:
            UnknownNameError: an option.
            DescriptionError: options that are no dict.
        """
        check_options(options)
        super().reset(seed=seed)
        self._running = False
        rng = self.np_random
        drawn = self._distribution.draw(rng, self._n, self._simulated.nodes)
        background = Background(
            self._walk(rng) * self._distribution.link_gb_per_s,
            self._walk(rng) * self._distribution.engine_gb_per_s,
        )
        self._scans = Scans.of(
            drawn.storage_node, drawn.rows, drawn.results, background, drawn.execution_node
        )
        self._read_only[:-1] = rng.random(self._n) < self._distribution.read_only_share
        self._seeds = rng.integers(SEEDS, size=self._n).astype(np.uint64)
        noise_seed = int(rng.integers(SEEDS))
        self._readings = Noise(self._noise, (noise_seed,)).throughput_factors(self._n)
        traffic = self._simulated.read_traffic(self._scans, self._seeds)
        features = self._simulated.features(self._scans, traffic)
        self._features[:-1] = np.minimum(features, _HIGHEST)
        self._times_by_path = {}
        self._step = 0
        self._illegal_actions = 0
        self._path = -1
        self._run_time_us = 0.0
        self._correct = True
        self._paths[:] = -1
        self._times[:] = 0.0
        self._running = True
        return self._observe(), self._info()

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Runs the next scan on a path.

        Raises:
            ResetNeeded: no episode is running.
            IllegalActionError: no path has this number, or a masked one with
                ``on_illegal="raise"``.
        """
        if not self._running:
            raise ResetNeeded("no episode is running: call reset() first")
        path = whole_action(action, self._actions, "must be from")
        if not self.action_masks()[path]:
            if self._on_illegal == "raise":
                raise IllegalActionError(
                    f"scan {self._step} is of a column that is written to: relaxed copies of it "
                    "are not allowed"
                )
            self._illegal_actions += 1
            if self._on_illegal == "terminate":
                self._running = False
                return self._observe(), 0.0, True, False, self._info()
            path = OFFLOAD
        run_time = self._time_of(path)
        if self.reward == "saving":
            reward = 1.0 - run_time / self._time_of(CPU)
        else:
            reward = -run_time * 1e-3
        self._paths[self._step] = path
        self._times[self._step] = run_time
        self._path, self._run_time_us = path, run_time
        self._correct = self._correct and path != RELAXED
        self._step += 1
        self._times_by_path = {}
        done = self._step == self._n
        self._running = not done
        return self._observe(), reward, done, False, self._info()

    def action_masks(self) -> BoolArray:
        """(A,) bool, the legal paths of the next scan; also before reset."""
        mask = np.ones(self._actions, dtype=np.bool_)
        if self._actions > RELAXED:
            mask[RELAXED] = self._read_only[self._step]
        return mask

    def path_times_us(self) -> Float64Array:
        """(A,) float64: run times of the next scan on each path, also on masked ones.

        For oracles and for regret, hidden from policies. The episode is not affected, and a step
        takes exactly this time.

        Raises:
            ResetNeeded: no episode is running.
        """
        if not self._running:
            raise ResetNeeded("no episode is running: call reset() first")
        return np.array([self._time_of(path) for path in range(self._actions)])

    @property
    def machine(self) -> Machine:
        """The simulated machine."""
        return self._simulated.machine

    @property
    def scans(self) -> Scans:
        """This episode's scans."""
        if self._scans is None:
            raise ResetNeeded("there is no episode yet: call reset() first")
        return self._scans

    @property
    def distribution(self) -> dict[str, Any]:
        """The distribution of scans, as plain JSON."""
        return asdict(self._distribution)

    def _picture(self, mode: str) -> Any:
        """The scans so far."""
        from pmoss_env.envs.access_path import viewer

        scans = self.scans
        draw = viewer.as_text if mode == "ansi" else viewer.as_image
        total = self._times.sum() / 1e3
        title = f"{self._step} of {self._n} scans, {total:.1f} ms"
        done = slice(0, self._step)
        return draw(
            scans[done], self._features[done].copy(), self._paths[done], self._times[done], title
        )

    def close(self) -> None:
        """Ends the episode. Safe to repeat."""
        self._running = False

    def _walk(self, rng: np.random.Generator) -> Float64Array:
        """(scans,) strengths from 0 to 1 of the background, each near the one before."""
        strength = rng.random()
        walk = np.empty(self._n)
        for i, step in enumerate(self._drift * (2.0 * rng.random(self._n) - 1.0)):
            walk[i] = strength
            # Reflected at both ends.
            strength = 1.0 - abs(1.0 - abs(strength + step))
        return walk

    def _time_of(self, path: int) -> float:
        """Microseconds of the next scan on a path, with noise."""
        if path not in self._times_by_path:
            i = self._step
            times = self._simulated.run(self.scans[i : i + 1], path, self._seeds[i])
            self._times_by_path[path] = float(times.run_time_us[0] / self._readings[i])
        return self._times_by_path[path]

    def _mask(self) -> Int8Array:
        return self.action_masks().astype(np.int8)

    def _observe(self) -> Observation:
        return {"features": self._features[self._step].copy(), "action_mask": self._mask()}

    def _info(self) -> dict[str, Any]:
        return {
            "action_mask": self._mask(),
            "illegal_actions": self._illegal_actions,
            "scan": self._step,
            "path": self._path,
            "run_time_us": self._run_time_us,
            "total_time_us": float(self._times.sum()),
            "correct": self._correct,
        }
