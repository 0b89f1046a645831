#include "runtime/co_tenant_crew.hpp"

#include <string>
#include <utility>

#include "numa/affinity.hpp"

namespace pmoss::runtime {

CoTenantCrew::CoTenantCrew(std::vector<CoTenant> co_tenants, const Poll& poll)
    : co_tenants_(std::move(co_tenants)) {
  for (const CoTenant& co_tenant : co_tenants_) {
    for (unsigned copy = 0; copy < threads_of(co_tenant); ++copy) {
      threads_.start("co-tenant on CPU " + std::to_string(co_tenant.cpu), [this, &co_tenant] {
        numa::pin_thread(co_tenant.cpu);
        CoTenantThread thread(co_tenant);
        if (control_.wait_for_start() != Phase::abort) thread.run(control_);
      });
    }
  }
  threads_.wait_ready(poll);
  control_.enter(Phase::measuring);
}

}  // namespace pmoss::runtime
