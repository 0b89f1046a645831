#include "scan/copy_engine.hpp"

namespace pmoss::scan {

std::unique_ptr<CopyEngine> make_engine(const std::string& name, int cpu) {
  if (name == "thread") return make_thread_engine(cpu);
  if (name == "dsa") return make_dsa_engine();
  throw std::invalid_argument("engine '" + name + "': must be thread or dsa");
}

}  // namespace pmoss::scan
