"""Machines as data: descriptions of servers, each value with its source."""

from pmoss_env.machines.catalog import load_machine, machine_names
from pmoss_env.machines.description import Machine
from pmoss_env.machines.parameters import Parameter
from pmoss_env.machines.random_machine import random_machine

__all__ = ["Machine", "Parameter", "load_machine", "machine_names", "random_machine"]
