// Which links a transfer between two sockets passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "machine/machine.hpp"

namespace pmoss {

/// The routes of a machine, followed once and looked up afterwards. Links have the numbers that
/// they have in Machine::link_gb_per_s: `from * sockets + to`.
class LinkRoutes {
 public:
  /// The machine must be complete; see Machine::complete().
  explicit LinkRoutes(const Machine& machine);

  /// The links from one socket to another, in the order of the way; none within a socket.
  std::span<const std::uint32_t> between(std::size_t from_socket,
                                         std::size_t to_socket) const noexcept {
    const std::size_t pair = from_socket * sockets_ + to_socket;
    return {links_.data() + first_[pair], links_.data() + first_[pair + 1]};
  }
  /// The same for the sockets of two nodes.
  std::span<const std::uint32_t> between_nodes(std::size_t from_node,
                                               std::size_t to_node) const noexcept {
    return between(socket_of_node_[from_node], socket_of_node_[to_node]);
  }

  std::size_t sockets() const noexcept { return sockets_; }
  /// The numbers that a link may have, whether or not the two sockets have one.
  std::size_t links() const noexcept { return sockets_ * sockets_; }

 private:
  std::size_t sockets_;
  std::vector<std::size_t> socket_of_node_;
  std::vector<std::uint32_t> links_;  // of all routes, one route after the other
  std::vector<std::size_t> first_;    // [from socket][to socket], then the number of all
};

}  // namespace pmoss
