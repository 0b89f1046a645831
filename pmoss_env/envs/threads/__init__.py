"""Thread migration on servers with slow memory."""

from pmoss_env.envs.threads.env import ThreadSchedulingEnv
from pmoss_env.envs.threads.inputs import INPUT_NAMES, INPUTS, Input
from pmoss_env.envs.threads.programs import PROGRAMS, ThreadProgram, load_program
from pmoss_env.envs.threads.server import Sample, SimulatedServer, ThreadServer

__all__ = [
    "INPUTS",
    "INPUT_NAMES",
    "PROGRAMS",
    "Input",
    "Sample",
    "SimulatedServer",
    "ThreadProgram",
    "ThreadSchedulingEnv",
    "ThreadServer",
    "load_program",
]
