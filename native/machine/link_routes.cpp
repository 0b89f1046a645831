#include "machine/link_routes.hpp"

namespace pmoss {

LinkRoutes::LinkRoutes(const Machine& machine)
    : sockets_(static_cast<std::size_t>(machine.sockets())),
      socket_of_node_(machine.socket_of_node.begin(), machine.socket_of_node.end()) {
  first_.reserve(links() + 1);
  for (std::size_t from = 0; from < sockets_; ++from) {
    for (std::size_t to = 0; to < sockets_; ++to) {
      first_.push_back(links_.size());
      for (std::size_t at = from; at != to;) {
        const auto next = static_cast<std::size_t>(machine.next_socket[at * sockets_ + to]);
        links_.push_back(static_cast<std::uint32_t>(at * sockets_ + next));
        at = next;
      }
    }
  }
  first_.push_back(links_.size());
}

}  // namespace pmoss
