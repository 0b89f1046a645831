// Python: the R-tree, a whole array of points or ranges per call.
#include "index/rtree.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

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

std::uint32_t as_coordinate(std::uint64_t number) {
  if (number > std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument("a coordinate is " + std::to_string(number) +
                                "; it must lie in 0 .. 2^32 - 1");
  }
  return static_cast<std::uint32_t>(number);
}

/// An array of rows of `columns` integers each.
Integers as_rows(const py::object& object, const char* name, py::ssize_t columns) {
  Integers integers = as_integers(object);
  if (integers.ndim() != 2 || integers.shape(1) != columns) {
    throw std::invalid_argument(std::string(name) + " must have the shape (n, " +
                                std::to_string(columns) + ")");
  }
  return integers;
}

std::vector<Point> as_points(const py::object& object) {
  const Integers rows = as_rows(object, "points", 2);
  std::vector<Point> points(static_cast<std::size_t>(rows.shape(0)));
  const std::uint64_t* number = rows.data();
  for (Point& point : points) {
    point = {as_coordinate(number[0]), as_coordinate(number[1])};
    number += 2;
  }
  return points;
}

std::vector<Rectangle> as_ranges(const py::object& object) {
  const Integers rows = as_rows(object, "ranges", 4);
  std::vector<Rectangle> ranges(static_cast<std::size_t>(rows.shape(0)));
  const std::uint64_t* number = rows.data();
  for (Rectangle& range : ranges) {
    range = {as_coordinate(number[0]), as_coordinate(number[1]), as_coordinate(number[2]),
             as_coordinate(number[3])};
    number += 4;
  }
  return ranges;
}

std::vector<std::uint64_t> as_values(const py::object& object, std::size_t points) {
  const Integers values = as_integers(object);
  if (values.ndim() != 1 || static_cast<std::size_t>(values.size()) != points) {
    throw std::invalid_argument("values must be a list as long as points, " +
                                std::to_string(points));
  }
  return {values.data(), values.data() + values.size()};
}

void bulk_load(RTree& tree, const py::object& points_object, const py::object& values_object,
               double fill) {
  const auto points = as_points(points_object);
  const auto values = as_values(values_object, points.size());
  const py::gil_scoped_release release;
  tree.bulk_load(points, values, fill);
}

void insert(RTree& tree, const py::object& points_object, const py::object& values_object) {
  const auto points = as_points(points_object);
  const auto values = as_values(values_object, points.size());
  const py::gil_scoped_release release;
  for (std::size_t i = 0; i < points.size(); ++i) tree.insert(points[i], values[i]);
}

Integers count(const RTree& tree, const py::object& ranges_object) {
  const auto ranges = as_ranges(ranges_object);
  Integers counts(static_cast<py::ssize_t>(ranges.size()));
  auto* count = counts.mutable_data();
  const py::gil_scoped_release release;
  for (const Rectangle& range : ranges) *count++ = tree.count(range);
  return counts;
}

Integers find(const RTree& tree, const py::object& range_object) {
  const Integers numbers = as_integers(range_object);
  if (numbers.ndim() != 1 || numbers.size() != 4) {
    throw std::invalid_argument("range must be 4 integers: x_low, y_low, x_high, y_high");
  }
  const std::uint64_t* number = numbers.data();
  const Rectangle range = {as_coordinate(number[0]), as_coordinate(number[1]),
                           as_coordinate(number[2]), as_coordinate(number[3])};
  std::vector<std::uint64_t> values;
  {
    const py::gil_scoped_release release;
    tree.find(range, values);
  }
  return Integers(static_cast<py::ssize_t>(values.size()), values.data());
}

void bind(py::module_& module) {
  const RTree::Options standard;
  py::class_<RTree>(module, "RTree",
                    "A concurrent R-tree of points with 32-bit coordinates, cut into the cells of "
                    "a grid. Calls release the GIL; all but bulk_load may run in several threads "
                    "at once. Ranges are x_low, y_low, x_high, y_high, borders included.")
      .def(py::init([](std::uint32_t slices, std::uint32_t fanout, bool huge_pages) {
             return std::make_unique<RTree>(RTree::Options{grid_of(slices), fanout, huge_pages});
           }),
           py::kw_only(), py::arg("slices") = standard.grid.slices(),
           py::arg("fanout") = standard.fanout, py::arg("huge_pages") = standard.huge_pages)
      .def("bulk_load", &bulk_load, py::arg("points"), py::arg("values"), py::arg("fill") = 1.0,
           "Fills an empty tree with points of shape (n, 2), nodes to the share `fill`.")
      .def("insert", &insert, py::arg("points"), py::arg("values"),
           "Adds points of shape (n, 2), which may be there already.")
      .def("count", &count, py::arg("ranges"), "Number of points in each range of shape (n, 4).")
      .def("find", &find, py::arg("range"), "Values of the points in a range, in any order.")
      .def("__len__", &RTree::size)
      .def_property_readonly("size", &RTree::size)
      .def_property_readonly("slices", &RTree::slices)
      .def_property_readonly("fanout", &RTree::fanout)
      .def("slice_size", &RTree::slice_size, py::arg("slice"), "Number of points of a slice.")
      .def("height", &RTree::height, py::arg("slice"), "Levels of a slice's tree, 0 if empty.");
}

const IndexClassRegistration registration{bind};

}  // namespace

}  // namespace pmoss::bindings
