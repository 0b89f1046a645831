// Co-tenants as Python tells them.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "runtime/co_tenant.hpp"

namespace pmoss::bindings {

/// (kind, CPU, strength, bytes, node).
using CoTenantFields = std::tuple<std::string, int, double, std::uint64_t, int>;

/// Throws std::invalid_argument for an unknown kind.
runtime::CoTenant co_tenant_of(const CoTenantFields& fields);

}  // namespace pmoss::bindings
