"""Thread migration on servers with slow memory: the environment and what it is made of."""

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
