import pytest

from pmoss_env.errors import UnknownNameError
from pmoss_env.machines import load_machine, random_machine


def test_the_same_seed_gives_the_same_machine_and_others_differ() -> None:
    first, again = random_machine(7), random_machine(7)
    assert first.parameters == again.parameters
    assert first.node_of_core.tolist() == again.node_of_core.tolist()
    assert len({random_machine(seed).parameter("dram_local_ns") for seed in range(20)}) > 15
    assert {random_machine(seed).sockets for seed in range(40)} == {1, 2, 4}
    assert any(random_machine(seed).distances.hops.max() == 2 for seed in range(40))


@pytest.mark.parametrize("name", ["random:", "random:x", "random:-1", "random-smt:1.5"])
def test_a_seed_that_is_no_whole_number_is_refused(name: str) -> None:
    with pytest.raises(UnknownNameError, match=name):
        load_machine(name)
