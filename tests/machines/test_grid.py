import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pmoss_env.machines import load_machine
from pmoss_env.machines.grid import borders, tile_groups


def test_groups_are_those_of_the_cores_on_the_tiles():
    machine = load_machine("skylake-x-8n")
    node, socket = tile_groups(machine)
    for core in range(machine.cores):
        row, col = divmod(int(machine.tile_of_core[core]), machine.cols)
        assert node[row, col] == machine.node_of_core[core]
        assert socket[row, col] == machine.socket_of_node[machine.node_of_core[core]]


@given(st.lists(st.lists(st.integers(-1, 2), min_size=3, max_size=3), min_size=1, max_size=4))
def test_borders_part_exactly_the_tiles_of_different_groups(rows):
    group = np.array(rows, dtype=np.int32)
    lines = set(borders(group))
    padded = np.pad(group, 1, constant_values=-1)
    for row in range(-1, group.shape[0]):
        for col in range(-1, group.shape[1]):
            tile = padded[row + 1, col + 1]
            if row >= 0:
                side = ((col + 0.5, row - 0.5), (col + 0.5, row + 0.5))
                assert (side in lines) == (tile != padded[row + 1, col + 2])
            if col >= 0:
                below = ((col - 0.5, row + 0.5), (col + 0.5, row + 0.5))
                assert (below in lines) == (tile != padded[row + 2, col + 1])
