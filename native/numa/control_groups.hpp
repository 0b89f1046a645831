// The control groups that this process is in, in both versions of the kernel's interface.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>

namespace pmoss::sysfs {

/// Calls `visit` with the folder and the version of each group with a controller such as "memory":
/// the process's own and all above, some of them twice. In a container the path may name folders of
/// the host that are not there.
inline void visit_groups(const std::filesystem::path& root, std::string_view controller,
                         const std::function<void(const std::filesystem::path&, int)>& visit) {
  namespace fs = std::filesystem;
  const fs::path mount = root / "sys/fs/cgroup";
  const auto up_from = [&](const fs::path& at, const std::string& path, int version) {
    fs::path inner;
    for (const fs::path& part : fs::path(path).relative_path()) {
      if (part != ".." && part != "." && !part.empty()) inner /= part;
    }
    for (; !inner.empty(); inner = inner.parent_path()) visit(at / inner, version);
    visit(at, version);
  };
  const auto has_controller = [&](const std::string& list) {
    std::istringstream members(list);
    for (std::string member; std::getline(members, member, ',');) {
      if (member == controller) return true;
    }
    return false;
  };
  // A container's own group is often mounted as the root, whatever its path is outside.
  visit(mount, 2);
  visit(mount / controller, 1);
  // Lines: "0::/PATH" of version 2, "4:memory:/PATH" of version 1.
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      up_from(mount, path, 2);
    } else if (has_controller(controllers)) {
      up_from(mount / controller, path, 1);
      up_from(mount / controllers, path, 1);
    }
  }
}

}  // namespace pmoss::sysfs
