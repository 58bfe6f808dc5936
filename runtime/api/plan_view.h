#pragma once
/// PlanView: what a program has become after one step of compiling it, in names and numbers: what
/// `inspect --plan` prints and tests compare.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace infer {

struct PlanView {
  struct Operand {
    std::string value, type;
    std::string layout;  ///< "" is dense row-major; "packed": the kernel holds it in its own form
    int buffer = -1;     ///< once there are launches; -1: none
    bool constant = false;
  };
  struct Step {
    std::string node, op;
    std::vector<std::string> fused_from;
    std::vector<Operand> operands, results;
    std::string kernel, precision;        ///< once they are chosen
    std::vector<std::string> candidates;  ///< kernels that accept the step, best first
    std::vector<std::string> refusals;    ///< "kernel: reason"
  };
  struct Launch {
    int step = 0;
    std::string kind;       ///< "kernel", "copy", "transfer", "reference", "late", "watch"
    std::vector<int> args;  ///< buffers: operands, results, scratch; -1: not read
  };
  struct Buffer {
    std::string kind;   ///< "arena", "constant", "input", "output"
    std::string value;  ///< the first that lies in it; "" is scratch
    std::string layout;
    int64_t bytes = 0, offset = 0;  ///< offset: in the arena of its memory space
    bool on_device = false;
    int first = 0, last = 0;  ///< launches in which it is alive
  };

  std::string name;  ///< of the step of compiling
  double ms = 0;     ///< that it took
  std::vector<Step> steps;
  std::vector<Launch> launches;
  std::vector<Buffer> buffers;  ///< those that some launch reads or writes
  int64_t arena_bytes = 0, lower_bound_bytes = 0;
};

/// One line or two for each step, launch and buffer that the view has. Times are left out.
std::string ToText(const PlanView& view);

using PlanObserver = std::function<void(const PlanView&)>;

}  // namespace infer
