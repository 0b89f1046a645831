"""A server from the XML that hwloc 2 writes: ``lstopo --of xml FILE``."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from pmoss_env.errors import DescriptionError
from pmoss_env.files import read_bytes
from pmoss_env.machines.importing.server_facts import (
    Fact,
    HardwareThread,
    ServerFacts,
    clock_in_name,
    most_common,
    number,
)
from pmoss_env.machines.topology import MAX_CORES

_ORIGIN = "lstopo XML"
#: The XML of a server with a thousand CPUs and all its devices has about 2 MB.
MAX_BYTES = 32 << 20
_MAX_DEPTH = 64


@dataclass
class _Element:
    """An XML element; ``parent`` is the one around it."""

    tag: str
    attributes: dict[str, str]
    line: int
    parent: _Element | None
    inside: list[_Element] = field(default_factory=list)
    text: str = ""

    @property
    def kind(self) -> str:
        return self.attributes.get("type", "") if self.tag == "object" else ""


def read_lstopo(path: Path) -> ServerFacts:
    """Reads a server from an XML file of hwloc 2.

    The file is data only: the document type that hwloc names is not opened, and any other document
    type, or an entity, raises an error.

    Raises:
        DescriptionError: names file, line and reason.
    """
    elements = _parse(path)
    objects = [element for element in elements if element.kind]
    nodes = sorted(
        (e for e in objects if e.kind == "NUMANode"), key=lambda e: _number(path, e, "os_index")
    )
    if not nodes:
        raise DescriptionError(f"{path}: has no object of type NUMANode: must have one per node")
    if len({n.attributes["os_index"] for n in nodes}) != len(nodes):
        raise DescriptionError(f"{path}: two objects of type NUMANode have the same os_index")
    place = {id(node): i for i, node in enumerate(nodes)}
    threads = sorted(
        (e for e in objects if e.kind == "PU"), key=lambda e: _number(path, e, "os_index")
    )
    if len(threads) > MAX_CORES:
        raise DescriptionError(f"{path}: has {len(threads)} PUs: must be at most {MAX_CORES}")
    if not threads:
        raise DescriptionError(f"{path}: has no object of type PU: must have one per CPU")
    for a, b in pairwise(threads):
        if a.attributes["os_index"] == b.attributes["os_index"]:
            _refuse(path, b, f"PU {b.attributes['os_index']} is there twice")
    cores = [_core(path, pu) for pu in threads]
    node_of = [place[id(_node(path, pu))] for pu in threads]
    sockets = [_ancestor(pu, "Package") for pu in threads]
    caches = {level: [_ancestor(pu, f"{level}Cache") for pu in threads] for level in ("L2", "L3")}
    socket = number(id(e) for e in sockets)
    llc = number(
        id(cache) if cache else ("socket", s) for cache, s in zip(caches["L3"], socket, strict=True)
    )
    physical = number(id(core) for core in cores)
    model = _info(sockets[0], "CPUModel") or "unknown processor"
    socket_of = {id(e): s for e, s in zip(sockets, socket, strict=True) if e}
    return ServerFacts(
        place=str(path),
        origin=_ORIGIN,
        model=model,
        vendor=_info(sockets[0], "CPUVendor") or _info(sockets[0], "CPUImplementer"),
        cpus=tuple(
            HardwareThread(
                _number(path, pu, "os_index"), node_of[i], socket[i], physical[i], llc[i]
            )
            for i, pu in enumerate(threads)
        ),
        nodes=tuple(_number(path, node, "os_index") for node in nodes),
        memory_bytes=tuple(
            _number(path, node, "local_memory") if "local_memory" in node.attributes else 0
            for node in nodes
        ),
        slit=_distances(path, elements, [node.attributes["os_index"] for node in nodes]),
        facts=_facts(path, nodes, caches, physical)
        | _clock([e for e in elements if e.tag == "cpukind"], model),
        socket_of_bare_node={
            i: socket_of[id(package)]
            for i, node in enumerate(nodes)
            if (package := _ancestor(node, "Package")) and id(package) in socket_of
        },
    )


def _parse(path: Path) -> list[_Element]:
    """The elements of the file in document order."""
    try:
        data = read_bytes(path, MAX_BYTES)
    except OSError as error:
        raise DescriptionError(f"{path}: cannot be read: {error.strerror}") from error
    parser = expat.ParserCreate()
    elements: list[_Element] = []
    open_: list[_Element] = []

    def refuse(reason: str) -> NoReturn:
        raise DescriptionError(f"{path}: line {parser.CurrentLineNumber}: {reason}")

    def doctype(name: str, system: str | None, public: str | None, internal: int) -> None:
        # The document type of hwloc; a parser that does not validate does not open its file.
        if (name, system, public, internal) != ("topology", "hwloc2.dtd", None, 0):
            refuse("has a document type (DTD) of its own: must have none, or the one of hwloc 2")

    def entity(*_: object) -> NoReturn:
        refuse("has an entity: must have none")

    def start(tag: str, attributes: dict[str, str]) -> None:
        if not elements and tag != "topology":
            refuse(f"begins with <{tag}>: must be <topology>, as hwloc writes it")
        if len(open_) == _MAX_DEPTH:
            refuse(f"is nested deeper than {_MAX_DEPTH} elements")
        parent = open_[-1] if open_ else None
        element = _Element(tag, attributes, parser.CurrentLineNumber, parent)
        if parent:
            parent.inside.append(element)
        elements.append(element)
        open_.append(element)

    def text(data: str) -> None:
        open_[-1].text += data

    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = doctype
    parser.EntityDeclHandler = entity
    parser.SkippedEntityHandler = entity
    parser.ExternalEntityRefHandler = entity
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda tag: open_.pop()
    parser.CharacterDataHandler = text
    try:
        parser.Parse(data, True)
    except LookupError as error:  # an encoding that Python does not know
        raise DescriptionError(f"{path}: line 1: {error}: must be UTF-8") from error
    except expat.ExpatError as error:
        raise DescriptionError(
            f"{path}: line {error.lineno}: is not valid XML: {expat.ErrorString(error.code)}"
        ) from error
    version = elements[0].attributes.get("version", "1")
    if version.partition(".")[0] not in ("2", "3"):
        _refuse(path, elements[0], f"is of hwloc {version}: must be written by hwloc 2 or later")
    return elements


def _refuse(path: Path, element: _Element, reason: str) -> NoReturn:
    raise DescriptionError(f"{path}: line {element.line}: {reason}")


def _number(path: Path, element: _Element, name: str) -> int:
    value = element.attributes.get(name, "")
    if not (value.isascii() and value.isdecimal() and len(value) < 19):
        what = element.kind or element.tag
        _refuse(path, element, f"{what}: {name} = {value!r}: must be a whole number")
    return int(value)


def _ancestor(element: _Element, kind: str) -> _Element | None:
    """The closest object of a kind around an element."""
    ancestor = element.parent
    while ancestor is not None and ancestor.kind != kind:
        ancestor = ancestor.parent
    return ancestor


def _core(path: Path, pu: _Element) -> _Element:
    core = _ancestor(pu, "Core")
    if core is None:
        _refuse(path, pu, f"PU {pu.attributes['os_index']} is in no object of type Core")
    return core


def _node(path: Path, pu: _Element) -> _Element:
    """The node of a CPU: hwloc attaches nodes beside the CPUs that are closest to them.

    Of several in one place (DRAM beside high-bandwidth or persistent memory) it is the first.
    """
    ancestor = pu.parent
    while ancestor is not None:
        # A memory-side cache stands between the node and the object that it is attached to.
        caches = [child for child in ancestor.inside if child.kind == "MemCache"]
        beside = [*ancestor.inside, *(element for cache in caches for element in cache.inside)]
        nodes = [element for element in beside if element.kind == "NUMANode"]
        if nodes:
            return min(nodes, key=lambda e: _number(path, e, "os_index"))
        ancestor = ancestor.parent
    _refuse(path, pu, f"PU {pu.attributes['os_index']} has no object of type NUMANode above it")


def _info(element: _Element | None, name: str) -> str:
    """The text of an info of an object, or of one around it: newer hwloc has some at the root."""
    while element is not None:
        for child in element.inside:
            if child.tag == "info" and child.attributes.get("name") == name:
                return child.attributes.get("value", "").strip()
        element = element.parent
    return ""


def _distances(
    path: Path, elements: list[_Element], nodes: list[str]
) -> tuple[tuple[float, ...], ...] | None:
    """The distances between all nodes, in their order; None if the file has none."""
    for element in elements:
        if element.tag != "distances2" or element.attributes.get("type") != "NUMANode":
            continue
        words = {
            tag: " ".join(child.text for child in element.inside if child.tag == tag).split()
            for tag in ("indexes", "u64values")
        }
        if element.attributes.get("indexing") != "os" or sorted(words["indexes"]) != sorted(nodes):
            continue  # of some of the nodes only
        n = len(nodes)
        values = words["u64values"]
        if len(values) != n * n or not all(v.isascii() and v.isdecimal() for v in values):
            _refuse(path, element, f"distances2: must have {n} x {n} whole numbers in <u64values>")
        order = [words["indexes"].index(node) for node in nodes]
        return tuple(tuple(float(values[a * n + b]) for b in order) for a in order)
    return None


def _facts(
    path: Path,
    nodes: list[_Element],
    caches: dict[str, list[_Element | None]],
    physical: list[int],
) -> dict[str, Fact]:
    def attribute(cache: _Element | None, name: str) -> float:
        return float(_number(path, cache, name)) if cache and name in cache.attributes else 0.0

    l2, l3 = caches["L2"], caches["L3"]
    cores_of = {
        id(cache): len({p for c, p in zip(l2, physical, strict=True) if c is cache}) for cache in l2
    }
    pages = [attribute(page, "size") for e in nodes for page in e.inside if page.tag == "page_type"]
    facts = {
        "l2_kib": most_common(
            (attribute(c, "cache_size") / 1024 / cores_of[id(c)] for c in l2), f"{_ORIGIN}, L2Cache"
        ),
        "l2_ways": most_common((_ways(path, c) for c in l2), f"{_ORIGIN}, L2Cache"),
        "llc_kib": most_common(
            (attribute(c, "cache_size") / 1024 for c in l3), f"{_ORIGIN}, L3Cache"
        ),
        "llc_ways": most_common((_ways(path, c) for c in l3), f"{_ORIGIN}, L3Cache"),
        "page_bytes": most_common([min(pages)] if pages else [], f"{_ORIGIN}, page_type"),
    }
    inclusive = _info(l3[0], "Inclusive") if l3[0] else ""
    if inclusive in ("0", "1"):
        facts["llc_inclusive"] = Fact(float(inclusive), f"{_ORIGIN}, L3Cache", "medium")
    return {name: fact for name, fact in facts.items() if fact is not None}


def _clock(kinds: list[_Element], model: str) -> dict[str, Fact]:
    """The base frequency of the fastest kind of core, listed last by hwloc, else its highest."""
    fastest = kinds[-1] if kinds else None
    base, highest = (_info(fastest, f"Frequency{which}MHz") for which in ("Base", "Max"))
    if base.isdecimal() and int(base) > 0:
        return {"clock_ghz": Fact(int(base) / 1e3, f"{_ORIGIN}, FrequencyBaseMHz", "high")}
    if fact := clock_in_name(model, _ORIGIN):
        return {"clock_ghz": fact}
    if highest.isdecimal() and int(highest) > 0:
        return {"clock_ghz": Fact(int(highest) / 1e3, f"{_ORIGIN}, FrequencyMaxMHz", "medium")}
    return {}


def _ways(path: Path, cache: _Element | None) -> float:
    """Ways of a cache; hwloc writes 0 where it does not know them and -1 for all."""
    if cache is None or cache.attributes.get("cache_associativity", "-1") == "-1":
        return 0.0
    return float(_number(path, cache, "cache_associativity"))
