from pmoss_env.machines import load_machine
from pmoss_env.machines.grid import tile_groups


def test_groups_are_those_of_the_cores_on_the_tiles():
    machine = load_machine("skylake-x-8n")
    node, socket = tile_groups(machine)
    for core in range(machine.cores):
        row, col = divmod(int(machine.tile_of_core[core]), machine.cols)
        assert node[row, col] == machine.node_of_core[core]
        assert socket[row, col] == machine.socket_of_node[machine.node_of_core[core]]
