"""The thorough search: its moves are legal, and serve what other searches find."""

import numpy as np

from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_datasets.continual.fitting import co_tenants
from pmoss_datasets.continual.search import thorough_moves
from pmoss_datasets.continual.worlds import World, improved

TOY = {"machine": "toy", "slices": 16, "epochs": 6}


def calm_session():
    made = CONTINUAL.make_env({**TOY, "drift": "none"})
    made.reset(seed=3)
    return made, made.unwrapped.session


def disturbed(session, number):
    """A world with a busy core and a stream, another one for each number."""
    machine, world = session.machine, World(session)
    shares = np.zeros(machine.cores + machine.nodes)
    shares[machine.workers[number]] = 0.6
    shares[machine.cores + number % machine.nodes] = 0.5
    world.believe(co_tenants(machine, shares))
    return world, 1.0 - shares[machine.workers]


def test_its_moves_are_legal_and_serve_as_much_as_those_of_planners():
    env, session = calm_session()
    cores = session.cores_seen.copy()
    for number in range(3):
        world, speeds = disturbed(session, number)
        staying = world.place(cores)
        served = []
        for moves in (
            thorough_moves([world], np.ones(1), speeds[None], cores, 3, 0.0),
            improved([world], cores, 3, 0.0),
        ):
            assert 0 < len(moves) <= 3 and len({slice_ for slice_, _ in moves}) == len(moves)
            after = cores.copy()
            for slice_, core in moves:
                assert core in session.machine.workers and core != cores[slice_]
                after[slice_] = core
            served.append(world.place(after))
        assert served[0] > 0.99 * served[1] and served[0] > staying
    env.close()
