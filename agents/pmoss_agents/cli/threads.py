"""`pmoss run threads`: a live process whose threads are scheduled."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from pmoss_env.cli import signals
from pmoss_env.cli.console import console
from pmoss_env.processes import interrupts_later


def threads(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[POLICY] [-- COMMAND]...",
            help="linucb, rule, scheduling-domain, random, hybrid (the default), module:Class, or "
            "a checkpoint (.safetensors); and a command to start and schedule.",
        ),
    ] = None,
    pid: Annotated[int | None, typer.Option(help="A process that runs already.")] = None,
    slow_node: Annotated[
        int, typer.Option(help="The node with the slow memory: CXL, Optane, or a far node.")
    ] = 0,
    save_agent: Annotated[
        Path | None, typer.Option("--save", help="Write what the agent has learned here.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after so long.")] = None,
    epoch: Annotated[float, typer.Option(help="Seconds between decisions.")] = 1.0,
    moves_per_second: Annotated[float, typer.Option(help="Rate limit.")] = 10.0,
    dry_run: Annotated[bool, typer.Option(help="Decide everything, change nothing.")] = False,
    log: Annotated[Path | None, typer.Option(help="Write one JSON object per epoch here.")] = None,
) -> None:
    """Migrate the threads of a live process towards its slow memory, by affinity only.

    Every thread gets its affinity back at the end: on Ctrl-C, on SIGTERM or SIGHUP, and when this
    program is killed, too; a small guardian process sees to that. A signal ends it with the status
    that names it (130, 143, 129), after --log, --save and the report were written.

    Example: pmoss run threads --slow-node 1 -- pmoss run load fillrandom --node 1 --seconds 30
    Example: pmoss run threads rule --pid 4711 --slow-node 2 --dry-run
    """
    import pmoss_agents
    from pmoss_agents.checkpoints import SUFFIX
    from pmoss_env.cli.output import check_output
    from pmoss_env.envs.threads import ThreadSchedulingEnv
    from pmoss_env.envs.threads.live.process import ProcessServer
    from pmoss_env.errors import UnsupportedError

    policy, command = _policy_and_command(list(words or ()))
    if (pid is None) == (not command):
        raise typer.BadParameter("give --pid, or a command after --, and not both")
    for path in (save_agent, log):
        if path is not None:
            check_output(path)
    if policy.endswith(SUFFIX):
        chosen = pmoss_agents.load(policy)
    else:
        chosen = pmoss_agents.make(policy if ":" in policy else f"threads-{policy}")
    if chosen.domain not in ("", "threads"):
        raise UnsupportedError(
            f"{policy}: plays {chosen.domain}, not threads; see pmoss list agents threads"
        )
    with _started(command) as child:
        target = pid if child is None else child.pid
        assert target is not None
        server = ProcessServer(
            target, slow_node=slow_node, dry_run=dry_run, moves_per_second=moves_per_second
        )
        with contextlib.closing(server):
            env = ThreadSchedulingEnv.on(
                server, most_threads=64, epoch_seconds=epoch, reward="normalised"
            )
            interrupted = False
            with _kept(chosen, log, save_agent) as lines:
                try:
                    _schedule(env, chosen, seconds, lines)
                except KeyboardInterrupt:
                    interrupted = True
            report, outcome = server.report, server.outcome()
    for note in report.notes:
        console.print(f"note: {note}")
    moved = f"{report.intended} moves intended, none made" if dry_run else f"{report.moves} moves"
    share = report.monitoring_seconds / max(outcome.seconds, 1e-9)
    console.print(
        f"{outcome.seconds:.1f} s observed: {moved}; the target used {outcome.user_seconds:.2f} s "
        f"in user mode and {outcome.kernel_seconds:.2f} s in the kernel; monitoring took "
        f"{share:.2%} of one CPU"
    )
    for reason, times in sorted(report.refused.items()):
        console.print(f"not moved, {times} times: {reason}")
    if interrupted:
        way = f"{save_agent} holds what the agent has learned: name it as the policy to go on"
        signals.set_resume_hint(
            way if save_agent else "to go on later, keep the agent with --save FILE"
        )
        raise KeyboardInterrupt


def _policy_and_command(words: list[str]) -> tuple[str, list[str]]:
    """The policy that words begin with, hybrid where they name none, and the command after it."""
    from pmoss_agents.checkpoints import SUFFIX
    from pmoss_agents.registry import agent_names
    from pmoss_env.errors import DescriptionError

    first = words[0] if words else ""
    if first.endswith(SUFFIX) or ":" in first or f"threads-{first}" in agent_names():
        return first, words[1:]
    if first.isdecimal():
        raise DescriptionError(f"{first}: is no command; --pid {first} names a running process")
    return "hybrid", words


@contextlib.contextmanager
def _kept(agent: Any, log: Path | None, save_agent: Path | None) -> Iterator[TextIO | None]:
    """The log, and the agent's file at the end: an error loses neither, a kill no line."""
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.nullcontext() if log is None else log.open("w", buffering=1) as lines:
        try:
            yield lines
        finally:
            if save_agent is not None:
                agent.save(save_agent)
            for path in filter(None, (log, save_agent)):
                console.print(f"written to {path}")


def _schedule(env: Any, agent: Any, seconds: float | None, lines: TextIO | None) -> None:
    import numpy as np

    end = None if seconds is None else time.monotonic() + seconds
    observation, info = env.reset()
    ended = env.server.ended
    while not ended and (end is None or time.monotonic() < end):
        action = int(agent.act(observation, info["action_mask"]))
        core = info["core"]
        observation, reward, ended, _, info = env.step(np.int64(action))
        agent.observe(reward)
        entry = {
            "epoch": info["epoch"],
            "core": core,
            "action": action,
            "moved": info["moved"],
            "reward": round(reward, 6),
            "unbalanced_cores": info["unbalanced_cores"],
            "threads": int(env.sample.threads.size),
        }
        if lines:
            lines.write(json.dumps(entry) + "\n")


@contextlib.contextmanager
def _started(command: list[str] | None) -> Iterator[subprocess.Popen[bytes] | None]:
    """The command as a child that ends with the context."""
    if not command:
        yield None
        return
    with contextlib.ExitStack() as at_the_end:
        with interrupts_later():
            child = subprocess.Popen(command)
            at_the_end.callback(_end, child)
        yield child


def _end(child: subprocess.Popen[bytes]) -> None:
    """Asks a child to end, and makes it end."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            child.kill()
    child.wait()
