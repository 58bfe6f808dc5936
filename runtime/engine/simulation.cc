#include "runtime/engine/simulation.h"

#include <algorithm>

namespace infer::engine {

void Simulation::Run(Task work, Task then) {
  elapsed_ns_ = 0;
  work();
  At(After(now_ns_, elapsed_ns_), std::move(then));
}

void Simulation::At(int64_t ns, Task task) {
  tasks_.emplace(std::tuple(std::max(ns, now_ns_), random_.NextU32(), count_++), std::move(task));
}

void Simulation::RunAll() {
  while (!tasks_.empty()) {
    const auto first = tasks_.extract(tasks_.begin());
    now_ns_ = std::get<0>(first.key());
    first.mapped()();
  }
}

}  // namespace infer::engine
