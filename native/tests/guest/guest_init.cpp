// The first and only program of a test guest: mounts what programs expect, runs the command that
// lies in /command (its words separated by NUL bytes; NAME=value before it, as for env) and reports
// the exit status to the emulator.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <sys/io.h>
#endif

namespace {

// QEMU's isa-debug-exit ends with (value << 1) | 1. Statuses begin at 64, so that none looks like
// one of QEMU's own.
[[maybe_unused]] constexpr unsigned short exit_port = 0xf4;
[[maybe_unused]] constexpr int first_status = 64;
constexpr int last_status = 63;

[[noreturn]] void leave(int status) {
#if !defined(__x86_64__)
  // Other machines have no such port: there the last line of the console has the result.
  std::printf("guest: status %d\n", status);
#endif
  std::fflush(nullptr);
  ::sync();
  // The kernel still holds what the console has not sent, and an emulator that ends loses it.
  ::tcdrain(STDOUT_FILENO);
#if defined(__x86_64__)
  if (::iopl(3) == 0) outb(static_cast<unsigned char>(first_status + status), exit_port);
#endif
  ::reboot(RB_POWER_OFF);
  for (;;) ::pause();
}

void mount_at(const char* type, const char* at) {
  ::mkdir(at, 0755);
  if (::mount(type, at, type, 0, nullptr) != 0) std::perror(at);
}

}  // namespace

int main() {
  mount_at("proc", "/proc");
  mount_at("sysfs", "/sys");
  mount_at("cgroup2", "/sys/fs/cgroup");
  mount_at("devtmpfs", "/dev");
  // The root lies in memory anyway; a mount would hide files that came with it.
  ::mkdir("/tmp", 0755);
  ::setenv("TMPDIR", "/tmp", 1);
  std::ifstream file("/command", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\0', at);
    words.push_back(text.substr(at, end - at));
    if (end == std::string::npos) break;
    at = end + 1;
  }
  auto program = words.begin();
  for (; program != words.end(); ++program) {
    const std::size_t equals = program->find('=');
    if (equals == std::string::npos) break;
    ::setenv(program->substr(0, equals).c_str(), program->c_str() + equals + 1, 1);
  }
  words.erase(words.begin(), program);
  if (words.empty()) {
    std::fputs("guest: /command is empty\n", stderr);
    leave(last_status);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    std::perror(arguments[0]);
    ::_exit(last_status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    std::fprintf(stderr, "guest: the command died of signal %d\n", WTERMSIG(status));
    leave(last_status);
  }
  leave(WEXITSTATUS(status) < last_status ? WEXITSTATUS(status) : last_status);
}
