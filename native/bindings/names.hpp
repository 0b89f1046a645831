// Values that Python gives by name.
#pragma once

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "machine/placement.hpp"

namespace pmoss::bindings {

/// The value of a name, one of `names`; else throws std::invalid_argument.
template <typename Value, std::size_t n>
Value named(const char* what, const std::string& name,
            const std::array<std::pair<const char*, Value>, n>& names) {
  std::string choices;
  for (const auto& [text, value] : names) {
    if (name == text) return value;
    choices += (choices.empty() ? "" : ", ") + std::string(text);
  }
  throw std::invalid_argument(std::string(what) + " is '" + name + "'; it must be one of " +
                              choices);
}

inline Routing routing_named(const std::string& name) {
  return named<Routing, 3>(
      "routing", name, {{{"core", Routing::core}, {"node", Routing::node}, {"any", Routing::any}}});
}

/// Of a model: "first_touch" is the loader's node there.
inline DataPlacement modelled_data_named(const std::string& name) {
  return named<DataPlacement, 3>("data", name,
                                 {{{"slice", DataPlacement::slice},
                                   {"interleaved", DataPlacement::interleaved},
                                   {"first_touch", DataPlacement::loader}}});
}

/// Of this host.
inline DataPlacement measured_data_named(const std::string& name) {
  return named<DataPlacement, 4>("data", name,
                                 {{{"keep", DataPlacement::keep},
                                   {"slice", DataPlacement::slice},
                                   {"interleaved", DataPlacement::interleaved},
                                   {"first_touch", DataPlacement::first_touch}}});
}

}  // namespace pmoss::bindings
