// Reading what Valgrind's tools print of each access.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "recording/access_trace.hpp"

namespace pmoss::recording {
namespace {

/// Of one access: more, as of a processor's whole state, is a damaged line.
constexpr std::size_t most_bytes = 1 << 14;

/// Takes a number from the front of a text. 0 where there is none.
std::uint64_t take_number(std::string_view& text, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// Removes everything up to a word, and the word. False where it is missing.
bool skip_past(std::string_view& text, std::string_view word) {
  const std::size_t at = text.find(word);
  if (at == std::string_view::npos) return false;
  text.remove_prefix(at + word.size());
  return true;
}

}  // namespace

AccessTrace::AccessTrace(PlannedQueries planned) : planned_(std::move(planned)) {}

void AccessTrace::take_facts(const std::string& facts) {
  std::istringstream lines(facts);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "record") {
      words >> record_bytes_;
    } else if (what == "mark") {
      words >> std::hex >> mark_;
    } else if (what == "data") {
      Range range{};
      words >> std::hex >> range.first >> range.end;
      data_.push_back(range);
    } else if (what == "code") {
      Code code{};
      words >> std::hex >> code.first >> code.end >> code.offset;
      std::getline(words >> std::ws, code.path);
      code_.push_back(std::move(code));
    }
    if (words.fail()) throw std::invalid_argument("the facts of a process have the line " + line);
  }
  if (mark_ == 0) throw std::invalid_argument("the facts of a process name no mark");
  std::sort(data_.begin(), data_.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
}

std::size_t AccessTrace::feed(std::string_view piece) {
  for (std::size_t end; (end = piece.find('\n')) != std::string_view::npos;) {
    if (rest_.empty()) {
      take_line(piece.substr(0, end));
    } else {
      rest_.append(piece.substr(0, end));
      take_line(rest_);
      rest_.clear();
    }
    piece.remove_prefix(end + 1);
  }
  rest_.append(piece);
  return first_.size() - 1;
}

void AccessTrace::take_line(std::string_view text) {
  if (text.starts_with("==")) {
    if (skip_past(text, "== ")) take_drd(text);
  } else {
    take_lackey(text);
  }
}

// "store 0xADDRESS size BYTES val ... (thread 1 / ...)", and below it "   at 0xINSTRUCTION: ...".
void AccessTrace::take_drd(std::string_view text) {
  if (text.starts_with("load") || text.starts_with("store")) {
    pending_.writes = text.front() == 's';
    pending_.bytes = 0;
    if (!skip_past(text, "0x")) return;
    pending_.address = take_number(text, 16);
    if (!skip_past(text, "size ")) return;
    const std::uint64_t bytes = take_number(text, 10);
    if (text.find("(thread 1 ") != std::string_view::npos) pending_.bytes = bytes;
  } else if (pending_.bytes > 0 && text.starts_with("   at 0x") && skip_past(text, "0x")) {
    access(pending_.address, pending_.bytes, pending_.writes, take_number(text, 16));
    pending_.bytes = 0;
  }
}

// "I  INSTRUCTION,BYTES", then its accesses: " L ADDRESS,BYTES", " S ..." or " M ..." for both.
void AccessTrace::take_lackey(std::string_view text) {
  if (text.size() < 4) return;
  const char what = text.front() == 'I' ? 'I' : text[1];
  text.remove_prefix(3);
  const std::uint64_t address = take_number(text, 16);
  if (what == 'I') {
    instruction_ = address;
    return;
  }
  if (text.empty() || (what != 'L' && what != 'S' && what != 'M')) return;
  text.remove_prefix(1);
  const std::uint64_t bytes = take_number(text, 10);
  if (what != 'S') access(address, bytes, false, instruction_);
  if (what != 'L') access(address, bytes, true, instruction_);
}

void AccessTrace::access(std::uint64_t address, std::size_t bytes, bool writes,
                         std::uint64_t instruction) {
  if (address == mark_) {
    if (!writes || first_.size() > planned_.size()) return;
    if (inside_) first_.push_back(accesses_.size());
    inside_ = !inside_;
    log_.clear();
    return;
  }
  if (!inside_ || bytes == 0 || bytes > most_bytes || !is_data(address)) return;
  const std::uint32_t site = site_of(instruction);
  const bool locks = writes && site_locks_[site];
  const std::size_t before = log_.entries().size();
  log_.add(reinterpret_cast<const void*>(static_cast<std::uintptr_t>(address)), bytes, writes,
           writes && !locks, locks);
  for (std::size_t i = before; i < log_.entries().size(); ++i) {
    accesses_.push_back({log_.entries()[i].line(), site, writes, locks, i > before});
  }
}

bool AccessTrace::is_data(std::uint64_t address) {
  const auto holds = [address](const Range& range) {
    return address >= range.first && address < range.end;
  };
  if (last_range_ < data_.size() && holds(data_[last_range_])) return true;
  const auto above =
      std::upper_bound(data_.begin(), data_.end(), address,
                       [](std::uint64_t value, const Range& range) { return value < range.first; });
  if (above == data_.begin() || !holds(*(above - 1))) return false;
  last_range_ = static_cast<std::size_t>(above - 1 - data_.begin());
  return true;
}

std::uint32_t AccessTrace::site_of(std::uint64_t instruction) {
  const auto [at, is_new] =
      sites_.try_emplace(instruction, static_cast<std::uint32_t>(sites_.size()));
  if (is_new) site_locks_.push_back(takes_lock(instruction));
  return at->second;
}

/// Looks at the instruction itself: on x86-64 it has a lock prefix, or exchanges with memory.
bool AccessTrace::takes_lock(std::uint64_t instruction) const {
#if defined(__x86_64__)
  for (const Code& code : code_) {
    if (instruction < code.first || instruction >= code.end) continue;
    std::array<unsigned char, 4> bytes{};
    const int file = ::open(code.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return false;
    const auto at = static_cast<off_t>(instruction - code.first + code.offset);
    const bool read = ::pread(file, bytes.data(), bytes.size(), at) == ssize_t{bytes.size()};
    ::close(file);
    if (!read) return false;
    for (const unsigned char byte : bytes) {
      if (byte == 0xf0 || byte == 0x86 || byte == 0x87) return true;
      const bool prefix = byte == 0x66 || byte == 0xf2 || byte == 0xf3 || (byte >> 4) == 4;
      if (!prefix) return false;
    }
    return false;
  }
#else
  (void)instruction;
#endif
  return false;
}

}  // namespace pmoss::recording
