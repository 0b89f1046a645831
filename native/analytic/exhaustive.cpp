#include "analytic/exhaustive.hpp"

#include <stdexcept>
#include <string>

namespace pmoss::analytic {

Optimum best_by_enumeration(Model& model, std::uint64_t limit) {
  const Machine& machine = model.machine();
  std::vector<std::int32_t> workers;
  for (int c = 0; c < machine.cores(); ++c) {
    if (machine.is_worker[static_cast<std::size_t>(c)] != 0) workers.push_back(c);
  }
  const auto slices = static_cast<std::size_t>(model.slices());
  std::uint64_t schedules = 1;
  for (std::size_t s = 0; s < slices; ++s) {
    if (schedules > limit / workers.size()) {
      throw std::invalid_argument(std::to_string(workers.size()) + " workers and " +
                                  std::to_string(slices) + " slices have more than " +
                                  std::to_string(limit) + " schedules: take a smaller instance");
    }
    schedules *= workers.size();
  }

  const auto node_of = [&](std::int32_t core) {
    return machine.node_of_core[static_cast<std::size_t>(core)];
  };
  std::vector<std::size_t> digit(slices, 0);
  std::vector<std::int32_t> cores(slices, workers[0]);
  std::vector<std::int32_t> nodes(slices, node_of(workers[0]));
  Optimum best{cores, model.place({cores, nodes}), 1};
  while (true) {
    std::size_t s = 0;  // a counter in base `workers`: mostly one slice moves per step
    while (s < slices && ++digit[s] == workers.size()) {
      digit[s] = 0;
      cores[s] = workers[0];
      model.move(static_cast<int>(s), cores[s], node_of(cores[s]));
      ++s;
    }
    if (s == slices) break;
    cores[s] = workers[digit[s]];
    const double throughput = model.move(static_cast<int>(s), cores[s], node_of(cores[s]));
    ++best.evaluated;
    if (throughput > best.throughput) {
      best.throughput = throughput;
      best.cores = cores;
    }
  }
  return best;
}

}  // namespace pmoss::analytic
