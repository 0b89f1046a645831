"""Reading what lstopo wrote, and refusing what it did not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pmoss_env.errors import DescriptionError
from pmoss_env.machines.importing import lstopo, read_lstopo

LstopoFile = Callable[..., Path]
HWLOC_DTD = '<!DOCTYPE topology SYSTEM "hwloc2.dtd">'


def test_a_server_is_read(lstopo_file: LstopoFile) -> None:
    server = read_lstopo(lstopo_file())
    assert [cpu.id for cpu in server.cpus] == list(range(16))
    assert [cpu.node for cpu in server.cpus] == [0, 0, 1, 1, 2, 2, 3, 3] * 2
    assert [cpu.socket for cpu in server.cpus] == [0, 0, 0, 0, 1, 1, 1, 1] * 2
    assert [cpu.physical for cpu in server.cpus] == list(range(8)) * 2
    assert server.memory_bytes == (16 << 30,) * 4
    assert server.slit is not None and server.slit[2] == (21, 21, 10, 11)
    assert server.vendor == "GenuineIntel"


def test_values_that_differ_are_the_most_common_with_less_confidence(lstopo_file):
    server = read_lstopo(lstopo_file(('cache_size="1048576"', 'cache_size="524288"')))
    fact = server.facts["l2_kib"]
    assert (fact.value, fact.confidence) == (1024, "medium")
    assert fact.source == "lstopo XML, L2Cache: so 14 of 16 CPUs"


def test_unknown_values_are_not_read(lstopo_file: LstopoFile) -> None:
    text = lstopo_file().read_text()
    for valid, unknown in [
        (' cache_associativity="11"', ' cache_associativity="-1"'),
        (' cache_associativity="16"', ""),
        (' cache_size="17301504"', ""),
        ("@ 2.50GHz", "@ fast"),
    ]:
        text = text.replace(valid, unknown)
    path = lstopo_file()
    path.write_text(text)
    assert set(read_lstopo(path).facts) == {"l2_kib", "llc_inclusive", "page_bytes"}


def test_the_base_frequency_is_preferred(lstopo_file: LstopoFile) -> None:
    kind = (
        '<cpukind cpuset="0xffff"><info name="FrequencyMaxMHz" value="3900"/>'
        '<info name="FrequencyBaseMHz" value="2600"/></cpukind></topology>'
    )
    frequencies = ("</topology>", kind)
    nameless, baseless = ("@ 2.50GHz", ""), ("FrequencyBaseMHz", "Misc")
    for changes, ghz, confidence in [
        ((frequencies,), 2.6, "high"),
        ((frequencies, baseless), 2.5, "medium"),
        ((frequencies, baseless, nameless), 3.9, "medium"),
    ]:
        fact = read_lstopo(lstopo_file(*changes)).facts["clock_ghz"]
        assert (fact.value, fact.confidence) == (ghz, confidence)


def test_a_shared_l2_counts_per_core(lstopo_file: LstopoFile) -> None:
    path = lstopo_file()
    cache = '<object type="L2Cache" cache_size="1048576" cache_associativity="16">'
    second_cache = f"</object>\n</object>\n{cache}"
    text = path.read_text()
    assert text.count(second_cache) == 4
    path.write_text(text.replace(second_cache, "</object>"))
    assert read_lstopo(path).facts["l2_kib"].value == 512


def test_the_first_of_two_nodes_in_one_place_has_the_cores(lstopo_file: LstopoFile) -> None:
    # Persistent memory behind a memory-side cache, beside the DRAM of node 0.
    bare = '<object type="MemCache"><object type="NUMANode" os_index="4"/></object>\n'
    dram = '<object type="NUMANode" os_index="0"'
    server = read_lstopo(lstopo_file((dram, bare + dram)))
    assert server.nodes == (0, 1, 2, 3, 4)
    assert {cpu.node for cpu in server.cpus} == {0, 1, 2, 3}
    assert server.socket_of_bare_node[4] == 0
    assert server.slit is None  # the file has distances of four nodes only


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("</topology>", "", r"line \d+: is not valid XML: no element found"),
        ("<object", "<<object", "line 4: is not valid XML"),
        (HWLOC_DTD, '<!DOCTYPE topology SYSTEM "file:///etc/passwd">', "line 2: has a document"),
        (HWLOC_DTD, '<!DOCTYPE topology PUBLIC "a" "hwloc2.dtd">', "line 2: has a document"),
        (HWLOC_DTD, '<!DOCTYPE topology [<!ENTITY a "b">]>', "line 2: has a document type"),
        (HWLOC_DTD, '<!DOCTYPE topology SYSTEM "hwloc2.dtd" []>', "line 2: has a document type"),
        ("</topology>", "&secret;</topology>", r"line \d+: has an entity"),
        ('<topology version="2.0">', '<topology version="1.11">', "line 3: is of hwloc 1.11"),
        ('<topology version="2.0">', "<topology>", "line 3: is of hwloc 1"),
        (
            '<topology version="2.0">',
            "<topology>" + "<object>" * 70,
            "line 3: is nested deeper than 64",
        ),
        ('"Core" os_index="3"', '"Corn" os_index="3"', r"line \d+: PU 3 is in no object of type"),
        ('"PU" os_index="9"', '"PU" os_index="8"', r"line \d+: PU 8 is there twice"),
        ('"PU" os_index="9"', '"PU" os_index="-9"', r"line \d+: PU: os_index = '-9': must be"),
        ('"PU" os_index="9"', '"PU"', r"line \d+: PU: os_index = '': must be a whole"),
        ('"NUMANode" os_index="1"', '"NUMANode" os_index="0"', "NUMANode have the same os_index"),
        ('"NUMANode" os_index="1"', '"Misc" os_index="1"', r"PU 2 has no object of type NUMANode"),
        ('cache_size="1048576"', 'cache_size="big"', "L2Cache: cache_size = 'big': must be"),
        ("10 11 21 21", "10 11 21", r"line \d+: distances2: must have 4 x 4 whole numbers"),
    ],
)
def test_what_lstopo_did_not_write_is_refused(lstopo_file, old, new, complaint):
    with pytest.raises(DescriptionError, match=rf"server.xml: .*{complaint}"):
        read_lstopo(lstopo_file((old, new)))


def test_files_without_nodes_or_cpus_are_refused(lstopo_file: LstopoFile) -> None:
    for kind in ("NUMANode", "PU"):
        path = lstopo_file()
        path.write_text(path.read_text().replace(f'<object type="{kind}"', '<object type="Misc"'))
        with pytest.raises(DescriptionError, match=rf"has no object of type {kind}: must have"):
            read_lstopo(path)


def test_foreign_missing_and_huge_files_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "server.xml"
    with pytest.raises(DescriptionError, match=r"server.xml: cannot be read: No such file"):
        read_lstopo(path)
    path.write_text("<html></html>")
    with pytest.raises(DescriptionError, match="line 1: begins with <html>"):
        read_lstopo(path)
    monkeypatch.setattr(lstopo, "MAX_BYTES", 1 << 20)
    path.write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(DescriptionError, match="has more than 1048576 bytes"):
        read_lstopo(path)
