// Python: the B+-tree, a whole array of keys per call.
#include "index/btree.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/index_classes.hpp"
#include "bindings/integers.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using Integers = py::array_t<std::uint64_t>;
using Flags = py::array_t<bool>;

Integers as_list_of(const py::object& object, const char* name) {
  Integers integers = as_integers(object);
  if (integers.ndim() != 1) {
    throw std::invalid_argument(std::string(name) + " has " + std::to_string(integers.ndim()) +
                                " dimensions; it must have 1");
  }
  return integers;
}

/// Does `write(key, value)` for each pair and returns what it answered.
template <class Write>
Flags write_pairs(const py::object& keys_object, const py::object& values_object, Write write) {
  const Integers keys = as_list_of(keys_object, "keys");
  const Integers values = as_list_of(values_object, "values");
  if (keys.size() != values.size()) {
    throw std::invalid_argument(std::to_string(keys.size()) + " keys and " +
                                std::to_string(values.size()) +
                                " values were given; there must be equally many");
  }
  Flags answers(keys.size());
  const auto* const key = keys.data();
  const auto* const value = values.data();
  auto* const answer = answers.mutable_data();
  const py::ssize_t n = keys.size();
  const py::gil_scoped_release release;
  for (py::ssize_t i = 0; i < n; ++i) answer[i] = write(key[i], value[i]);
  return answers;
}

Flags erase(BTree& tree, const py::object& keys_object) {
  const Integers keys = as_list_of(keys_object, "keys");
  Flags answers(keys.size());
  const auto* const key = keys.data();
  auto* const answer = answers.mutable_data();
  const py::ssize_t n = keys.size();
  const py::gil_scoped_release release;
  for (py::ssize_t i = 0; i < n; ++i) answer[i] = tree.erase(key[i]);
  return answers;
}

py::tuple lookup(const BTree& tree, const py::object& keys_object) {
  const Integers keys = as_list_of(keys_object, "keys");
  const py::ssize_t n = keys.size();
  Flags found(n);
  Integers values(n);
  const auto* const key = keys.data();
  auto* const flag = found.mutable_data();
  auto* const value = values.mutable_data();
  {
    const py::gil_scoped_release release;
    std::fill_n(value, n, 0);
    tree.lookup_batch(key, static_cast<std::size_t>(n), value, flag);
  }
  return py::make_tuple(found, values);
}

py::tuple scan(const BTree& tree, std::uint64_t first, std::size_t limit) {
  std::vector<std::uint64_t> keys, values;
  {
    const py::gil_scoped_release release;
    // In pieces, since the limit may be far beyond what there is.
    constexpr std::size_t piece = 4096;
    while (keys.size() < limit) {
      const std::size_t done = keys.size();
      const std::size_t wanted = std::min(piece, limit - done);
      keys.resize(done + wanted);
      values.resize(done + wanted);
      const std::size_t n = tree.scan(first, wanted, keys.data() + done, values.data() + done);
      keys.resize(done + n);
      values.resize(done + n);
      if (n < wanted || keys.back() == std::numeric_limits<std::uint64_t>::max()) break;
      first = keys.back() + 1;
    }
  }
  return py::make_tuple(Integers(static_cast<py::ssize_t>(keys.size()), keys.data()),
                        Integers(static_cast<py::ssize_t>(values.size()), values.data()));
}

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    default:
      return "scalar";
  }
}

py::list supported_isas() {
  py::list names;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (isa_supported(isa)) names.append(name_of(isa));
  }
  return names;
}

void choose_isa(const std::string& name) {
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (isa_supported(isa) && name == name_of(isa)) return set_search_isa(isa);
  }
  throw std::invalid_argument("isa is '" + name + "'; it must be one of " +
                              std::string(py::str(supported_isas())));
}

void bind(py::module_& module) {
  const BTree::Options standard;
  py::class_<BTree>(module, "BTree",
                    "A concurrent B+-tree of 64-bit keys and values, cut into slices of equal "
                    "key range. Calls release the GIL and may run in several threads at once.")
      .def(py::init([](std::uint32_t slices, bool huge_pages) {
             return std::make_unique<BTree>(BTree::Options{slices, huge_pages});
           }),
           py::kw_only(), py::arg("slices") = standard.slices,
           py::arg("huge_pages") = standard.huge_pages)
      .def(
          "insert",
          [](BTree& tree, const py::object& keys, const py::object& values) {
            return write_pairs(keys, values, [&](std::uint64_t key, std::uint64_t value) {
              return tree.insert(key, value);
            });
          },
          py::arg("keys"), py::arg("values"),
          "Adds the keys, or replaces their values; returns which keys were new.")
      .def(
          "update",
          [](BTree& tree, const py::object& keys, const py::object& values) {
            return write_pairs(keys, values, [&](std::uint64_t key, std::uint64_t value) {
              return tree.update(key, value);
            });
          },
          py::arg("keys"), py::arg("values"),
          "Replaces the values of the keys that are there; returns which were.")
      .def("erase", &erase, py::arg("keys"), "Removes the keys; returns which were there.")
      .def("lookup", &lookup, py::arg("keys"),
           "(found, values): which keys are there and their values, 0 where absent.")
      .def("scan", &scan, py::arg("first"), py::arg("limit"),
           "(keys, values) of the up to `limit` smallest keys from `first` on, ascending.")
      .def("__len__", &BTree::size)
      .def_property_readonly("size", &BTree::size)
      .def_property_readonly("slices", &BTree::slices)
      .def("slice_size", &BTree::slice_size, py::arg("slice"), "Number of keys of a slice.")
      .def(
          "arena_bytes",
          [](const BTree& tree, std::uint32_t slice) {
            const EpochGuard guard;
            return tree.arena(slice).bytes_used();
          },
          py::arg("slice"), "Bytes of memory that hold the nodes of a slice.")
      .def(
          "arena_chunks",
          [](const BTree& tree, std::uint32_t slice) {
            std::vector<ChunkView> views;
            {
              const EpochGuard guard;
              views = tree.arena(slice).chunks();
            }
            py::list chunks;
            for (const auto& chunk : views) {
              chunks.append(py::make_tuple(chunk.address, chunk.bytes));
            }
            return chunks;
          },
          py::arg("slice"), "(address, bytes) of the address ranges that belong to a slice alone.");

  module.def("search_isas", &supported_isas,
             "The instruction sets this processor can search with.");
  module.def("set_search_isa", &choose_isa, py::arg("isa"),
             "Chooses the instruction set of all trees; for tests and measurements.");
}

const IndexClassRegistration registration{bind};

}  // namespace

}  // namespace pmoss::bindings
