// A batch of spatial-scheduling episodes that advance together by the rules. The single environment
// is a batch of one. An episode begins and ends in Python (pmoss_env/envs/spatial/session.py),
// which draws and adds noise; here lie the models' measurements and every step between.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "analytic/profile.hpp"
#include "environment/rules.hpp"
#include "environment/team.hpp"
#include "machine/interference.hpp"
#include "machine/snapshot.hpp"

namespace pmoss::analytic {
class Model;
}

namespace pmoss::environment {

/// What an environment's model is to measure before the first step.
struct Opening {
  std::size_t environment = 0;
  /// Of another workload instance; empty: the one at hand.
  std::function<analytic::SliceProfiles()> profiles;
  const Interference* taken = nullptr;  // by its co-tenants; null: as the instance, those at hand
  std::span<const std::int32_t> cores, nodes;  // of the incumbent
  bool prepared = false;                       // by Batch::prepare(), with the same fields
  std::shared_ptr<const void> owned{};         // what the rest points at, where it is needed later
};

/// Gives a model the instance and the co-tenants, and places the incumbent.
Snapshot open(analytic::Model& model, const Opening& opening);

/// What gives a schedule's throughput, in million queries per second.
class ThroughputSource {
 public:
  virtual ~ThroughputSource() = default;
  /// The snapshot of the incumbent.
  virtual Snapshot open(const Opening& opening) = 0;
  /// Measures the incumbent of the next episode, while the present one goes on in another thread.
  virtual void prepare(const Opening& opening) = 0;
  /// Goes on with what prepare() made.
  virtual Snapshot take() = 0;
  virtual double place(std::span<const std::int32_t> cores,
                       std::span<const std::int32_t> nodes) = 0;
  /// Moves one slice of the schedule at hand.
  virtual double move(int slice, int core, int node) = 0;
};

/// Arrays of what else a step gives, an element per environment. Not owned.
struct Results {
  double* rewards = nullptr;
  bool* ended = nullptr;
  double* throughput = nullptr;
  std::int64_t* illegal_actions = nullptr;
  std::int64_t* slice = nullptr;  // the next one
  std::int64_t* tile = nullptr;   // where the latest one went; -1 at the start
  std::int64_t* node = nullptr;   // where its data went; -1 at the start
};

/// How an episode begins.
struct Start {
  std::span<const float> counters;  // [slice][counter], as observed
  std::span<const float> meta;      // as observed
  std::span<const std::int32_t> order;
  std::span<const std::int32_t> cores, nodes;  // of the incumbent
  std::span<const double> readings;            // what each step's throughput is multiplied by
  double throughput = 0;
};

class Batch {
 public:
  /// A source per environment; null where only read() gives the throughput. The arrays must
  /// outlive the batch. Throws std::invalid_argument for no environment or no thread.
  Batch(Rules rules, std::vector<std::unique_ptr<ThroughputSource>> sources,
        Observations observations, Results results, int threads);

  std::size_t environments() const { return episodes_.size(); }
  const Rules& rules() const { return rules_; }

  /// The snapshots of incumbents, which the threads measure side by side. What is prepared comes
  /// from prepare(), as far as that has come. Throws std::invalid_argument for an environment that
  /// does not exist, comes twice or has no source, and what prepare() met.
  std::vector<Snapshot> open(std::span<const Opening> openings);

  /// Has the threads beside the caller measure next episodes while these go on, and returns at
  /// once; without such threads it does nothing. Replaces what was prepared and is not open. Throws
  /// std::invalid_argument as open() does, and where an opening has no profiles or co-tenants, or
  /// owns nothing.
  void prepare(std::vector<Opening> openings);

  /// Begins an episode; throws std::invalid_argument for a wrong length, a core that does not
  /// exist or an order that does not name each slice once.
  void start(std::size_t environment, const Start& start);

  /// One step of every environment but the resting ones, which stay as they are with reward 0.
  ///
  /// `ended` marks the episodes that are over. Where an environment has no source, the final
  /// throughput and reward are known only after read(); so they are where a masked action ended the
  /// episode. Until then the reward is 0 and the throughput is that of the latest reading.
  ///
  /// Where `copy` is given, the observations are written there too, all of them. Throws
  /// std::invalid_argument, and changes nothing, for a wrong length, a tile that does not exist or
  /// an episode that is over.
  void step(std::span<const std::int64_t> actions, std::span<const bool> resting,
            const Observations* copy);

  /// One step of one environment. True if it has ended, or its throughput is to be read now.
  bool step_one(std::size_t environment, std::int64_t action);

  /// Takes a reading of the present schedule, unless it was read already, and pays for it.
  void read(std::size_t environment, double throughput);

  /// Writes all observations as they are.
  void observe(const Observations& copy) const;
  /// Writes the observation of one environment.
  void observe_one(std::size_t environment, const Observations& copy) const;

  /// The tiles that this episode's slices went to so far, in order of the steps.
  std::span<const std::int32_t> placed(std::size_t environment) const;
  /// [slice]: the present schedule.
  std::span<const std::int32_t> cores(std::size_t environment) const;
  std::span<const std::int32_t> nodes(std::size_t environment) const;

 private:
  enum class Stage : std::uint8_t { none, waiting, running, ready };
  /// A next episode. Whoever moves `stage` on from waiting or ready may use the rest.
  struct Next {
    std::atomic<Stage> stage{Stage::none};
    Opening opening;
    std::exception_ptr error;
  };
  struct Episode {
    std::unique_ptr<ThroughputSource> source;
    Next next;
    Progress progress;
    std::vector<float> counters;
    std::vector<std::int32_t> order, incumbent, incumbent_nodes, cores, nodes, tiles;
    std::vector<double> readings;
    std::size_t read_at = 0;  // steps at the latest reading
    bool running = false;
  };

  /// Environments whose rows are copied at once.
  static constexpr std::size_t together = 8;

  void check_openings(std::span<const Opening> openings) const;
  bool prepare_one() noexcept;
  bool withdraw(Next& next);
  Snapshot open_one(const Opening& opening);
  void check_action(std::size_t environment, std::int64_t action) const;
  const Episode& episode(std::size_t environment) const;
  bool is_short(std::span<const bool> resting, bool copies) const noexcept;
  /// Asks for what advance() will read: copying has driven it out of the core's own cache.
  void fetch(std::size_t environment, std::size_t action) const noexcept;
  void advance(std::size_t environment, std::size_t action);
  void copy_rows(std::size_t first, std::size_t count, const Observations& to) const;

  Rules rules_;
  std::vector<Episode> episodes_;
  Observations now_;
  Results results_;
  bool backwards_ = false;               // the way through the environments in the latest step
  std::atomic<std::size_t> waiting_{0};  // next episodes that no thread has begun
  Team team_;
};

}  // namespace pmoss::environment
