// A library serving queries alone, while a tool such as Valgrind watches the process.
#pragma once

#include <cstdint>
#include <string>

namespace pmoss::kinds {

/// What is asked of the watched process. The two files hold words of 64 bits: the keys, in the
/// order in which they are loaded, and three for each query: its key, kind and length.
struct DrivenPlugin {
  std::string library;
  std::uint32_t slices;
  std::string keys;
  std::string queries;
  std::string facts;  ///< the file to be written before the first query
  int parent;         ///< the process that watches: this one dies with it
};

/// Loads the library and the keys. Then it writes the facts, a line each:
///
///   mark ADDRESS                  a word that is stored to before and after every query
///   data FIRST END                memory that may be the index's
///   code FIRST END OFFSET PATH    where instructions lie, and in which file
///   record BYTES                  that a record takes, as the library says
///
/// Then it runs the queries, one after the other, makes the empty file FACTS.end, and ends the
/// process. Throws PluginError if the library fails.
[[noreturn]] void drive_plugin(const DrivenPlugin& asked);

/// The same, counting under Callgrind: runs up to `limit` queries of each kind, and before these
/// the same on an index that does nothing. Counts are written by the kind's number, and with "idle"
/// before it.
void count_plugin(const DrivenPlugin& asked, std::uint64_t limit);

}  // namespace pmoss::kinds
