#include "runtime/co_tenant_crew.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "numa/affinity.hpp"
#include "runtime/errors.hpp"

namespace pmoss::runtime {
namespace {

TEST(ConcurrentCoTenants, RunsUntilItDies) {
  const int cpu = numa::allowed_cpus().front();
  for (const auto kind :
       {CoTenant::Kind::spin, CoTenant::Kind::cache_thrash, CoTenant::Kind::memory_stream}) {
    std::optional<CoTenantCrew> crew;
    crew.emplace(std::vector<CoTenant>{{kind, cpu, 0.3, std::uint64_t{1} << 21}}, Poll{});
    crew.reset();
  }
}

TEST(ConcurrentCoTenants, TellsWhoFailed) {
  const std::vector<CoTenant> wrong = {{CoTenant::Kind::spin, 99'999, 0.5}};
  EXPECT_THROW(CoTenantCrew(wrong, {}), RunnerError);
}

}  // namespace
}  // namespace pmoss::runtime
