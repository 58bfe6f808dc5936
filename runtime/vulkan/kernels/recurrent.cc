/// LSTM in f32: a dispatch for each step, since drivers on a processor end long loops.
#include <algorithm>

#include "lib/ops/recurrent/recurrent_reference.h"
#include "lib/support/strings.h"
#include "runtime/vulkan/kernels/kernels.h"
#include "runtime/vulkan/kernels/strided_copy.h"

namespace infer::vulkan {
namespace {

/// Operands and results of the operator.
enum LstmInput : size_t { kLstmX, kLstmW, kLstmR, kLstmB, kLstmLengths, kLstmH, kLstmC, kLstmP };
enum LstmResult : size_t { kLstmY, kLstmLastH, kLstmLastC, kLstmResults };
/// Dispatches that a launch records, at most.
constexpr int64_t kMostSteps = 4096;

std::string RefuseLstm(const StepCall& call, const DeviceFacts&) {
  if (std::string r = RefuseUnlessPlainF32(call); !r.empty()) return r;
  const Node& n = call.main();
  for (size_t i : {kLstmLengths, kLstmP})
    if (n.input(i)) return Cat("'", n.def().inputs[i].name, "' is given");
  if (n.attrs().contains("clip")) return "clip";
  if (n.AttrOr<int64_t>("input_forget", 0) != 0) return "input_forget";
  if (auto it = n.attrs().find("activations"); it != n.attrs().end()) {
    const std::vector<std::string> one = DefaultActivations(RecurrentCell::kLstm);
    const auto& names = std::get<std::vector<std::string>>(it->second);
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] != one[i % one.size()]) return Cat("activation ", names[i]);
  }
  return "";
}

class LstmKernel final : public Kernel {
 public:
  LstmKernel(const StepCall& call, Facts facts) : facts_(std::move(facts)) {
    const Node& n = call.main();
    for (size_t i = 0; i <= kLstmP; ++i) at_.push_back(call.operand(n.input(i)));
    const auto& made = call.step.outputs;
    for (size_t o = 0; o < kLstmResults; ++o) {
      const Value* v = o < n.outputs().size() ? n.output(o) : nullptr;
      const auto it = v ? std::find(made.begin(), made.end(), call.plan.id(v)) : made.end();
      result_.push_back(it == made.end() ? -1 : static_cast<int>(it - made.begin()));
    }
    batch_first_ = n.Attr<int64_t>("layout") != 0;
    const auto& direction = n.Attr<std::string>("direction");
    reversed_ = direction == "reverse" ? 1 : direction == "bidirectional" ? 2 : 0;
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    Layer l;
    const Dims &x = in[static_cast<size_t>(at_[kLstmX])].dims,
               &r = in[static_cast<size_t>(at_[kLstmR])].dims;
    l.steps = x[batch_first_ ? 1 : 0];
    l.batch = x[batch_first_ ? 0 : 1];
    l.inputs = x[2];
    l.dirs = r[0];
    l.hidden = r[2];
    if (l.steps > kMostSteps) return Unsupported(Cat(l.steps, " steps"));
    LaunchBuilder b(facts_, in, out);
    b.Scratch(3 * l.states() * 4);
    b.Iterations(4 * (l.inputs + l.hidden) + kFewRounds);
    for (const auto& [operand, to] : {std::pair(kLstmH, int64_t{0}), {kLstmC, 2 * l.states()}})
      if (at_[operand] >= 0)
        INFER_TRY(AddCopy(b, b.Read(at_[operand]), Own(b),
                          {l.extents(), Outside(l), l.inside(), 0, to}, 4));
    for (int64_t step = 0; step < l.steps; ++step) AddStepOf(l, step, b);
    for (const auto& [o, from] :
         {std::pair(kLstmLastH, l.steps % 2 * l.states()), {kLstmLastC, 2 * l.states()}})
      if (result_[o] >= 0)
        INFER_TRY(AddCopy(b, b.ScratchRead(), b.Write(static_cast<size_t>(result_[o])),
                          {l.extents(), l.inside(), Outside(l), from, 0}, 4));
    return b.Finish("lstm");
  }

 private:
  struct Layer {
    int64_t steps = 0, batch = 0, inputs = 0, dirs = 0, hidden = 0;
    int64_t states() const { return dirs * batch * hidden; }
    Dims extents() const { return {dirs, batch, hidden}; }
    /// Strides of states in the launch's own memory.
    Dims inside() const { return {batch * hidden, hidden, 1}; }
  };

  /// Of the operator's states.
  Dims Outside(const Layer& l) const {
    return batch_first_ ? Dims{l.hidden, l.dirs * l.hidden, 1} : l.inside();
  }
  static LaunchBuilder::Arg Own(const LaunchBuilder& b) {
    LaunchBuilder::Arg own = b.ScratchRead();
    own.written = true;
    return own;
  }

  void AddStepOf(const Layer& l, int64_t step, LaunchBuilder& b) const {
    const bool has_y = result_[kLstmY] >= 0;
    Push push;
    push.U(l.states()).U(l.batch).U(l.inputs).U(l.hidden).U(step).U(l.steps).U(reversed_);
    if (batch_first_)
      push.U(l.inputs).U(l.steps * l.inputs).U(l.dirs * l.hidden).U(l.hidden);
    else
      push.U(l.batch * l.inputs).U(l.inputs).U(l.states()).U(l.batch * l.hidden);
    push.U(batch_first_ ? l.steps * l.dirs * l.hidden : l.hidden);
    const auto y = has_y ? b.Write(static_cast<size_t>(result_[kLstmY])) : Own(b);
    b.DispatchElements("lstm", {at_[kLstmB] >= 0, has_y, at_[kLstmH] >= 0, at_[kLstmC] >= 0},
                       {b.Read(at_[kLstmX]), b.Read(at_[kLstmW]), b.Read(at_[kLstmR]),
                        b.ReadOr(at_[kLstmB], at_[kLstmX]), Own(b), y},
                       push, l.states(), 64);
  }

  Facts facts_;
  std::vector<int> at_, result_;  // operands and results of the step, by those of the operator
  bool batch_first_ = false;
  int64_t reversed_ = 0;  // bit d: direction d
};

std::unique_ptr<Kernel> MakeLstm(const StepCall& call, const Facts& facts) {
  return std::make_unique<LstmKernel>(call, facts);
}

}  // namespace

KernelList RecurrentKernels(const Facts& facts) {
  return {Def(facts, "LSTM", "", "lstm", RefuseLstm, MakeLstm)};
}

}  // namespace infer::vulkan
