"""Writes the C++ headers of the counters from their table.

CMake runs it when it configures a build, and again whenever the table has changed. It needs Python
alone: nothing of this project is installed then.

Usage: generate.py COUNTERS.TOML FOLDER
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = Path(__file__).resolve().parents[2] / "pmoss_env"
NOTE = "// Generated from pmoss_env/counters.toml by native/counters/generate.py. Do not edit.\n"


def load_reader() -> ModuleType:
    """The table's reader, as a file: its package needs modules that are not built yet."""
    spec = importlib.util.spec_from_file_location("counter_table", PACKAGE / "counter_table.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def kernel_counters(table: Any) -> list[Any]:
    """What the kernel counts, in the order of pmu::Event: the PMU's first."""
    every = (*table.counters, *table.extra)
    return [c for source in ("hardware", "software") for c in every if c.source == source]


def events_header(table: Any) -> str:
    """The events that the kernel counts: their order, names and units."""
    counters = kernel_counters(table)
    hardware = sum(counter.source == "hardware" for counter in counters)
    names = "".join(f"  {c.event},  // {c.meaning}\n" for c in counters)
    rows = "".join(
        f'    {{"{c.event}", "{c.event_unit}", "{c.name}", {c.event_scale!r}, '
        f"{str(c.kernel_only).lower()}}},\n"
        for c in counters
    )
    return f"""{NOTE}#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pmoss::pmu {{

/// Columns of every counter matrix, in this order: events of the hardware, then of the kernel.
enum class Event : std::uint8_t {{
{names}}};

inline constexpr std::size_t event_count = {len(counters)};
inline constexpr std::size_t first_software_event = {hardware};

struct EventDescription {{
  std::string_view name;
  std::string_view unit;     ///< "count", "cycles" or "ns"
  std::string_view counter;  ///< its name in snapshots
  double scale;              ///< from `unit` to that of the counter
  bool kernel_only;          ///< counts in the kernel's mode only
}};

/// By event.
inline constexpr std::array<EventDescription, event_count> event_descriptions{{{{
{rows}}}}};

}}  // namespace pmoss::pmu
"""


def encodings_header(table: Any) -> str:
    """How the kernel is asked for each event, on which CPUs."""
    tests = "".join(_cpu_test(kind) for kind in table.cpus.values())
    rows, names = "", ""
    for counter in kernel_counters(table):
        for code in counter.perf:
            if code.kind == "name":
                names += f'    {{Event::{counter.event}, "{code.value}"}},\n'
                continue
            for kind in code.on or ("any_cpu",):
                test = kind if kind == "any_cpu" else f"is_{kind}"
                rows += f"    {{Event::{counter.event}, &{test}, {_attributes(code)}}},\n"
    count = names.count("\n")
    return f"""{NOTE}#pragma once

#include <linux/perf_event.h>

#include <array>
#include <cstdint>

#include "pmu/events.hpp"

namespace pmoss::pmu::detail {{

constexpr bool any_cpu(const CpuIdentity&) noexcept {{ return true; }}

constexpr bool is_between(unsigned model, unsigned first, unsigned last) noexcept {{
  return first <= model && model <= last;
}}

{tests}struct Encoding {{
  Event event;
  bool (*fits)(const CpuIdentity&) noexcept;
  std::uint32_t type;
  std::uint64_t config;
  std::uint64_t config1;  ///< Intel's register of off-core responses
}};

/// The first that fits holds.
inline constexpr Encoding encodings[] = {{
{rows}}};

struct NamedEncoding {{
  Event event;
  const char* name;
}};

/// Names of libpfm4, for CPUs that no encoding fits.
inline constexpr std::array<NamedEncoding, {count}> named_encodings{{{{
{names}}}}};

}}  // namespace pmoss::pmu::detail
"""


def _cpu_test(kind: Any) -> str:
    conditions = [f"cpu.{kind.vendor}"]
    if kind.families:
        conditions.append("(" + " || ".join(f"cpu.family == {v:#x}" for v in kind.families) + ")")
    if kind.models:
        ranges = (f"is_between(cpu.model, {a:#x}, {b:#x})" for a, b in kind.models)
        conditions.append("(" + " || ".join(ranges) + ")")
    return f"""/// {kind.meaning}
constexpr bool is_{kind.name}(const CpuIdentity& cpu) noexcept {{
  return {" && ".join(conditions)};
}}

"""


def _attributes(code: Any) -> str:
    if code.kind == "raw":
        return f"PERF_TYPE_RAW, {code.value:#x}, {code.offcore:#x}"
    if code.kind == "hardware":
        return f"PERF_TYPE_HARDWARE, PERF_COUNT_HW_{code.value.upper()}, 0"
    if code.kind == "software":
        return f"PERF_TYPE_SOFTWARE, PERF_COUNT_SW_{code.value.upper()}, 0"
    cache, operation, result = (part.upper() for part in code.value)
    return (
        f"PERF_TYPE_HW_CACHE, PERF_COUNT_HW_CACHE_{cache} | (PERF_COUNT_HW_CACHE_OP_{operation} "
        f"<< 8) | (PERF_COUNT_HW_CACHE_RESULT_{result} << 16), 0"
    )


def rates_header(table: Any) -> str:
    """What the models compute, and a list of all counters for the module."""
    computed = [counter for counter in table.counters if counter.models]
    members = "".join(f"  double {c.name} = 0.0;  ///< {c.meaning}\n" for c in computed)
    rows = "".join(
        f'    {{"{c.name}", &SliceRates::{c.name}, {_flag(c, "analytic")}, '
        f"{_flag(c, 'simulated')}}},\n"
        for c in computed
    )
    names = "".join(f'    "{counter.name}",\n' for counter in table.counters)
    return f"""{NOTE}#pragma once

#include <array>
#include <string_view>

namespace pmoss {{

/// Every counter, in the order of a snapshot's columns.
inline constexpr std::array<std::string_view, {len(table.counters)}> counter_names{{{{
{names}}}}};

/// What the models compute of each slice: million counts per second.
struct SliceRates {{
{members}}};

struct ComputedCounter {{
  std::string_view name;
  double SliceRates::*rate;
  bool analytic;   ///< the analytic model computes it
  bool simulated;  ///< the simulated server computes it
}};

inline constexpr std::array<ComputedCounter, {len(computed)}> computed_counters{{{{
{rows}}}}};

}}  // namespace pmoss
"""


def _flag(counter: Any, model: str) -> str:
    return str(model in counter.models).lower()


def headers(table: Any) -> Iterator[tuple[str, str]]:
    """Name and text of each header."""
    yield "events.hpp", events_header(table)
    yield "encodings.hpp", encodings_header(table)
    yield "rates.hpp", rates_header(table)


def main(table_path: Path, folder: Path) -> None:
    """Writes the headers that changed, so that nothing else is compiled again."""
    reader = load_reader()
    try:
        table = reader.read_table(table_path)
    except reader.CounterTableError as error:
        sys.exit(str(error))
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in headers(table):
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
