#include "runtime/crew.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

#include "numa/affinity.hpp"
#include "runtime/clock.hpp"
#include "runtime/co_tenant.hpp"

namespace pmoss::runtime {
namespace {

std::string role(const char* kind, std::size_t number, int cpu) {
  return std::string(kind) + " " + std::to_string(number) + " on CPU " + std::to_string(cpu);
}

/// The clock's calibration, which the first question for its rate brings, is no query's time.
std::uint64_t ticks_once_calibrated() {
  Clock::ns_per_tick();
  return Clock::ticks();
}

}  // namespace

Crew::AdvanceRecords::~AdvanceRecords() {
  std::uint64_t most_draws = 0, issued = 0;
  for (const auto& router : routers) {
    if (!router) continue;  // its thread failed before
    most_draws = std::max(most_draws, router->totals().insert_draws);
    issued += router->totals().issued;
  }
  written.next_insert_record += most_draws * routers.size();
  // An update adds how many queries its worker has executed.
  written.most_added = std::max(written.most_added, issued);
}

Crew::Crew(const Plan& plan, ServedIndex& index, Homes& homes, Written& written,
           std::function<void(WholeRound)> tell)
    : plan_(plan),
      index_(index),
      homes_(homes),
      origin_(ticks_once_calibrated()),
      board_(plan.routes(plan.options.schedule)),
      first_insert_record_(written.next_insert_record),
      memories_(plan.workers()),
      router_memories_(plan.routers()),
      routers_(plan.routers()),
      advance_{written, routers_},
      workers_(plan.workers()),
      routers_running_(plan.routers()),
      rounds_(plan.options.until_stopped ? std::numeric_limits<double>::infinity()
                                         : plan.options.seconds,
              plan.options.sweep_seconds),
      stitcher_(plan.nodes, std::move(tell)) {}

/// On the thread that runs it.
void Crew::make_router(std::size_t number, NodeMemory& memory) {
  const MeasureOptions& options = plan_.options;
  Router::Settings settings;
  settings.number = number;
  settings.routers = plan_.routers();
  settings.load = options.load;
  settings.tokens = plan_.tokens(number);
  settings.rate_mqs = options.rate_mqs;
  settings.waiting_room = plan_.waiting_room();
  settings.origin = origin_;
  settings.shares_core = plan_.roles_on_router_cpu[number] > 1;
  routers_[number] =
      make_in<Router>(memory, settings, index_, options.seed, first_insert_record_, board_, memory);
}

/// Once all workers have built their queues.
Router* Crew::connect(std::size_t router) {
  std::vector<Ring*> rings;
  for (const auto& worker : workers_) rings.push_back(&worker->ring(router));
  routers_[router]->connect(std::move(rings));
  return routers_[router].get();
}

void Crew::start(const Poll& poll) {
  for (std::size_t i = 0; i < plan_.workers(); ++i) start_worker(i);
  for (std::size_t i = 0; i < plan_.routers(); ++i) {
    if (!plan_.hosted(i)) start_router(i);
  }
  for (std::size_t i = 0; i < plan_.options.co_tenants.size(); ++i) start_co_tenant(i);
  threads_.wait_ready(poll);
  // Only now do the workers exist whose queues are swept.
  if (plan_.enforces()) make_enforcement();
  start_sweepers();
  threads_.wait_ready(poll);
}

void Crew::start_worker(std::size_t number) {
  const MeasureOptions& options = plan_.options;
  const int cpu = options.worker_cpus[number];
  Worker::Settings settings;
  settings.routers = plan_.routers();
  settings.queue_items = plan_.queue_items();
  settings.slices = plan_.slices;
  settings.window = options.window;
  settings.batch = options.batch;
  settings.origin = origin_;
  threads_.start(role("worker", number, cpu), [this, number, cpu, settings] {
    const MeasureOptions& asked = plan_.options;
    numa::pin_thread(cpu);
    if (asked.on_worker_start) asked.on_worker_start(number);
    // Asked on each CPU: two kinds of core count different events.
    const pmu::CpuIdentity identity = pmu::this_cpu();
    pmu::ThreadCounters counters(pmu::probe(asked.opener, identity), asked.counters, asked.opener,
                                 identity);
    counters.check_running();
    memories_[number] = std::make_unique<NodeMemory>(plan_.node_of.at(cpu));
    workers_[number] = make_in<Worker>(*memories_[number], settings, index_, std::move(counters),
                                       *memories_[number]);
    for (const std::size_t router : plan_.hosted_routers[number]) {
      make_router(router, *memories_[number]);
    }
    if (control_.wait_for_start() == Phase::abort) return;
    std::vector<Router*> hosted;
    for (const std::size_t router : plan_.hosted_routers[number]) {
      hosted.push_back(connect(router));
    }
    workers_[number]->run(control_, routers_running_, std::move(hosted));
  });
}

void Crew::start_router(std::size_t number) {
  const int cpu = plan_.router_cpus[number];
  threads_.start(role("router", number, cpu), [this, number, cpu] {
    numa::pin_thread(cpu);
    router_memories_[number] = std::make_unique<NodeMemory>(plan_.node_of.at(cpu));
    make_router(number, *router_memories_[number]);
    if (control_.wait_for_start() == Phase::abort) return;
    connect(number)->run(control_);
    routers_running_.fetch_sub(1, std::memory_order_release);
  });
}

void Crew::start_co_tenant(std::size_t number) {
  const CoTenant& co_tenant = plan_.options.co_tenants[number];
  for (unsigned copy = 0; copy < threads_of(co_tenant); ++copy) {
    threads_.start(role("co_tenant", number, co_tenant.cpu), [this, &co_tenant] {
      numa::pin_thread(co_tenant.cpu);
      CoTenantThread thread(co_tenant);
      if (control_.wait_for_start() == Phase::abort) return;
      streamed_bytes_.fetch_add(thread.run(control_));
    });
  }
}

void Crew::make_enforcement() {
  Enforcer::Settings settings = plan_.options.migration;
  settings.interleave_nodes = plan_.interleave_nodes;
  enforcement_.emplace(Enforcer(index_, homes_, settings), board_, plan_);
}

template <typename Body>
void Crew::start_helper(std::string name, int cpu, Body body) {
  threads_.start(std::move(name), [this, cpu, body] {
    if (cpu >= 0) numa::pin_thread(cpu);
    if (control_.wait_for_start() != Phase::abort) body();
  });
}

void Crew::start_sweepers() {
  const SweeperCpus& cpus = plan_.sweepers;
  if (rounds_.count() > 0) {
    for (std::size_t node = 0; node < plan_.nodes.size(); ++node) {
      std::vector<SweptWorker> workers;
      for (std::size_t i = 0; i < plan_.workers(); ++i) {
        if (plan_.node_of.at(plan_.options.worker_cpus[i]) == plan_.nodes[node]) {
          workers.push_back({i, &workers_[i]->tallies()});
        }
      }
      start_helper("sweeper of node " + std::to_string(plan_.nodes[node]), cpus.of_node[node],
                   [this, node, workers] {
                     sweep_cores(control_, rounds_, node, workers, plan_.options.until_stopped,
                                 stitcher_.cores());
                   });
    }
    start_helper("sweeper off the cores", cpus.offcore,
                 [this] { sweep_offcore(control_, rounds_, offcore_, stitcher_.offcore()); });
  }
  if (rounds_.count() > 0 || enforcement_) {
    start_helper("stitcher", cpus.stitcher,
                 [this] { run_stitcher(control_, stitcher_, enforcement()); });
  }
}

void Crew::warm_up(const Poll& poll) {
  const std::uint64_t begin = Clock::ticks() - origin_;
  for (const auto& router : routers_) router->begin_at(begin);
  control_.enter(Phase::warmup);
  threads_.wait_for(std::chrono::duration<double>(plan_.options.warmup_seconds), poll);
  // Aggressively moved data arrive before anything counts; lazily moved ones while it does.
  if (!enforcement_ || plan_.options.migration.pace != MigrationPace::aggressive) return;
  const auto warm = std::chrono::steady_clock::now();
  while (!enforcement_->settled()) threads_.wait_for(std::chrono::milliseconds(1), poll);
  placing_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - warm).count();
}

void Crew::begin() {
  offcore_begin_ = offcore_.read();
  rounds_.begin();
  begin_ticks_ = Clock::ticks();
  control_.enter(Phase::measuring);
}

void Crew::wait(std::chrono::duration<double> time, const Poll& poll) {
  const Poll poll_and_report = [&] {
    report_rounds();
    return poll && poll();
  };
  threads_.wait_for(time, poll_and_report);
}

void Crew::end() {
  // Workers count until they see the next phase: that, and not a moment before, is the end.
  const std::uint64_t end = control_.enter(Phase::drain);
  offcore_end_ = offcore_.read();
  end_ticks_ = end - origin_;
  seconds_ = static_cast<double>(end - begin_ticks_) * Clock::ns_per_tick() * 1e-9;
}

void Crew::drain(const Poll& poll) {
  threads_.join(poll);
  if (enforcement_) enforcement_->finish();
  stitcher_.stitch();
  report_rounds();
}

void Crew::report_rounds() {
  if (!plan_.options.on_rounds) return;
  const StitchedRounds fresh = stitcher_.since(rounds_reported_);
  rounds_reported_ += fresh.seconds.size();
  if (!fresh.seconds.empty()) plan_.options.on_rounds(fresh);
}

}  // namespace pmoss::runtime
