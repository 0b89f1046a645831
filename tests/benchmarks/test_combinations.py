import pytest

from pmoss_benchmarks.spatial.combinations import combinations
from pmoss_env.errors import UnknownNameError


def test_combinations_can_be_of_one_index() -> None:
    both = combinations(["toy"], [], ["closed"])
    points = combinations(["toy"], [], ["closed"], indexes=["rtree"])
    assert 0 < len(points) < len(both)
    assert points == [each for each in both if each["index"] == "rtree"]
    with pytest.raises(UnknownNameError, match="trie"):
        combinations(["toy"], [], ["closed"], indexes=["trie"])
