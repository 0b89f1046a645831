#include "runtime/answers.hpp"

#include "runtime/control.hpp"

namespace pmoss::runtime {

void check_answers(ServedIndex& index, const Written& written, const Poll& poll) {
  if (!index.is_foreign()) return;
  Control control;
  Threads threads(control);
  threads.start("the check of the answers", [&] {
    index.check_answers(written, [&] { return control.phase() == Phase::abort; });
  });
  threads.join(poll);
}

}  // namespace pmoss::runtime
