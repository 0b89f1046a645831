// The simulated server: a machine on which a recorded trace is executed under a schedule.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "machine/interference.hpp"
#include "machine/load.hpp"
#include "machine/machine.hpp"
#include "machine/numa_balancing.hpp"
#include "machine/placement.hpp"
#include "machine/snapshot.hpp"
#include "recording/trace.hpp"

namespace pmoss::simulator {

struct ServerOptions {
  enum class Dispatch : std::uint8_t {
    ideal,     ///< a query is at its worker at once
    modelled,  ///< the machine's routers hand out queries in turn, dispatch_ns for each
  };

  double warmup_share = 0.5;  ///< of the trace: warms caches and queues, and is not measured
  double epoch_us = 25.0;     ///< simulated time after which latencies follow the traffic
  Dispatch dispatch = Dispatch::ideal;

  bool numa_balancing = false;  ///< a hash decides to which node a page has moved
  NumaBalancing balancing;
};

/// A slice that goes to another core while queries run. To another node its data follow.
struct Move {
  std::int32_t slice = 0, core = 0;
  double bytes = 0;  ///< that follow; infinite for a copy that lasts as long as the run
};

/// What came of moves.
struct Migration {
  struct Piece {
    double seconds = 0, throughput = 0;  ///< million queries per second
  };

  Snapshot snapshot;          ///< from the moves to the end
  std::vector<Piece> pieces;  ///< each but the last ends when the data of slices were there
  double copied_bytes = 0;
  std::size_t pending = 0;  ///< slices whose data were not there in the end
};

/// Executes a trace once from beginning to end and measures what follows the warm-up. The result of
/// run() depends on its arguments alone. Closed load starts with all queries in the queues. A
/// saturated worker always has the next query of those that are routed to it; with modelled
/// dispatch, the routers are always busy, and hand out the mix as it is. Queries of an open load
/// are lost when as many queries are in the system as the trace has. Latencies are response times.
/// For saturated load they are those of a queue that always holds `outstanding_per_worker`.
class Server {
 public:
  /// Throws std::invalid_argument.
  Server(Machine machine, Load load, ServerOptions options = {});
  ~Server();
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;

  /// Throws std::invalid_argument for a trace without queries or co-tenants of a wrong shape.
  void set_instance(std::shared_ptr<const recording::Trace> trace, Interference interference = {});

  /// `placement.nodes` is for every slice; so is `placement.cores` where the routing is by core.
  /// Throws std::invalid_argument, and std::logic_error before set_instance().
  Snapshot run(const Placement& placement, std::uint64_t seed);

  /// The same, with slices that move when the warm-up ends. Queries that are queued by then stay
  /// where they are. Data arrive at the ends of the server's epochs. `most_gb_per_s` limits the
  /// copies; 0: not at all. Throws std::invalid_argument also for moves that do not exist, and
  /// unless cores and data are the slices' own under a closed or an open load.
  Migration migrate(const Placement& placement, std::span<const Move> moves, double most_gb_per_s,
                    std::uint64_t seed);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace pmoss::simulator
