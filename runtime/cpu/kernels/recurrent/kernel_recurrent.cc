/// LSTM, GRU and RNN in f32 with their default activations (recurrent_launch.h), and
/// DynamicQuantizeLSTM, whose products are those of bytes with AVX-512 VNNI (byte_product.h).
#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/recurrent/recurrent_launch.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

using Cell = RecurrentCell;

/// LSTM of 8-bit weights, which rounds X and the states, too.
bool Quantizes(const Node& n) { return n.Is("DynamicQuantizeLSTM", kMicrosoft); }

Cell CellOf(const Node& n) {
  if (n.Is("LSTM") || Quantizes(n)) return Cell::kLstm;
  return n.Is("GRU") ? Cell::kGru : Cell::kRnn;
}

/// An RNN whose activation is Relu in every direction.
bool IsRelu(const Node& n) {
  const auto it = n.attrs().find("activations");
  if (CellOf(n) != Cell::kRnn || it == n.attrs().end()) return false;
  const auto& names = std::get<std::vector<std::string>>(it->second);
  return !names.empty() && std::all_of(names.begin(), names.end(),
                                       [](const std::string& name) { return name == "Relu"; });
}

/// Whether gates go through what no loop of ours computes.
bool IsUnusual(const Node& n) {
  if (n.attrs().count("clip") || n.AttrOr<int64_t>("input_forget", 0) != 0) return true;
  const auto it = n.attrs().find("activations");
  if (it == n.attrs().end()) return false;
  const std::vector<std::string> one = DefaultActivations(CellOf(n));
  const auto& names = std::get<std::vector<std::string>>(it->second);
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] != one[i % one.size()]) return true;
  return false;
}

std::vector<GateActivation> GateActivations(const std::vector<RecurrentActivation>& list) {
  return {list.begin(), list.end()};
}

std::string RefuseRecurrent(const StepCall& call) {
  const Node& n = call.main();
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  const auto is_number = [&](size_t i) {
    return i != 4 && (!Quantizes(n) || (i != 1 && i != 2 && i < 8));
  };
  for (size_t i = 0; i < n.inputs().size(); ++i)
    if (n.input(i) && is_number(i) &&
        (!n.input(i)->type().is_tensor() || n.input(i)->dtype() != DType::kF32))
      return Cat("operand '", n.input(i)->name(), "' is ", ToString(n.input(i)->type()));
  return "";
}

/// Codes [D, K, G H] as f32 [D, G H, K], by a scale and a zero point for each direction or each of
/// its columns.
Tensor NumbersOf(const Tensor& codes, const Tensor& scale, const Tensor& zero) {
  const int64_t dirs = codes.dim(0), depth = codes.dim(1), rows = codes.dim(2);
  const auto at = [rows](const Tensor& t, int64_t d, int64_t row) {
    return t.At(t.rank() == 2 ? d * rows + row : d);
  };
  Tensor out(DType::kF32, {dirs, rows, depth});
  const auto to = out.mutable_data<float>();
  for (int64_t d = 0; d < dirs; ++d)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t k = 0; k < depth; ++k)
        to[static_cast<size_t>((d * rows + row) * depth + k)] = static_cast<float>(
            (codes.At((d * depth + k) * rows + row) - at(zero, d, row)) * at(scale, d, row));
  return out;
}

std::string RefuseQuantizedLstm(const StepCall& call) {
  for (const size_t i : {1, 2, 8, 9, 10, 11})
    if (!call.constant(call.main().input(i)))
      return "weights, a scale or a zero point are not constant";
  return RefuseRecurrent(call);
}

class RecurrentKernel final : public Kernel {
 public:
  explicit RecurrentKernel(const StepCall& call) {
    const Node& n = call.main();
    launch_.cell = CellOf(n);
    launch_.reverse = n.Attr<std::string>("direction") == "reverse";
    launch_.linear_before_reset = n.AttrOr<int64_t>("linear_before_reset", 0) != 0;
    launch_.quantizes = Quantizes(n);
    if (IsRelu(n) && n.attrs().count("clip") == 0)
      launch_.activation = simd::Unary::kRelu;
    else if (IsUnusual(n))
      launch_.unusual = GateActivations(*ReadActivations(CallOf(n), launch_.cell));  // checked
    launch_.input_forget = n.AttrOr<int64_t>("input_forget", 0) != 0;
    launch_.e.gates = launch_.cell == Cell::kLstm ? 4 : launch_.cell == Cell::kGru ? 3 : 1;
    launch_.e.batch_first = !launch_.quantizes && n.Attr<int64_t>("layout") != 0;
    auto operand = [&](size_t i) { return call.operand(n.input(i)); };
    launch_.at = {.x = operand(0),
                  .w = operand(1),
                  .r = operand(2),
                  .b = operand(3),
                  .lengths = operand(4),
                  .h0 = operand(5),
                  .c0 = operand(6),
                  .p = operand(7)};
    for (size_t o = 0; o < 3; ++o) {
      const Value* v = n.output(o);
      const auto& made = call.step.outputs;
      const auto it = v ? std::find(made.begin(), made.end(), call.plan.id(v)) : made.end();
      result_[o] = it == made.end() ? -1 : static_cast<int>(it - made.begin());
    }
    const Tensor *w = call.constant(n.input(1)), *r = call.constant(n.input(2));
    if (launch_.quantizes && ByteProduct::IsThere(std::max(w->dim(1), r->dim(1)))) {
      PackBytes(call);
      return;
    }
    Tensor numbers[2];
    if (launch_.quantizes) {
      numbers[0] = NumbersOf(*w, *call.constant(n.input(8)), *call.constant(n.input(9)));
      numbers[1] = NumbersOf(*r, *call.constant(n.input(10)), *call.constant(n.input(11)));
      w = &numbers[0];
      r = &numbers[1];
    }
    if (w && r) {
      RecurrentLaunch& l = launch_;
      l.e.dirs = r->dim(0);
      l.e.hidden = r->dim(2);
      l.e.input = w->dim(2);
      auto packed = std::make_shared<RecurrentLaunch::Packed>();
      packed->w = Tensor(DType::kF32, {l.e.dirs * l.PackedW()});
      packed->r = Tensor(DType::kF32, {l.e.dirs * l.PackedR()});
      l.Pack(w->data<float>().data(), r->data<float>().data(),
             packed->w.mutable_data<float>().data(), packed->r.mutable_data<float>().data());
      l.packed = std::move(packed);
    }
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    auto launch = std::make_shared<RecurrentLaunch>(launch_);
    RecurrentLaunch::Extents& e = launch->e;
    RecurrentLaunch::Arguments& at = launch->at;
    const Dims &x = in[static_cast<size_t>(at.x)].dims, &r = in[static_cast<size_t>(at.r)].dims;
    e.steps = x[e.batch_first ? 1 : 0];
    e.batch = x[e.batch_first ? 0 : 1];
    e.input = x[2];
    e.hidden = r[launch->quantizes ? 1 : 2];
    e.dirs = r[0];
    if (launch->quantizes) e.block = e.batch;  // a range of all states
    const int results = static_cast<int>(in.size());
    auto result = [&](int o) { return result_[o] < 0 ? -1 : results + result_[o]; };
    at.y = result(0);
    at.y_h = result(1);
    at.y_c = result(2);
    at.scratch = results + static_cast<int>(out.size());
    Prepared p;
    p.name = Cat(launch->by_bytes() ? "own:bytes:" : "own:", simd::TheLoops().isa);
    p.scratch_bytes = launch->ScratchFloats() * 4;
    p.unused.assign(in.size(), launch->packed != nullptr);
    if (launch->packed) {
      for (int i : {at.x, at.b, at.lengths, at.h0, at.c0, at.p})
        if (i >= 0) p.unused[static_cast<size_t>(i)] = false;
      p.weight_bytes = launch->packed->bytes();
    }
    p.launch = std::move(launch);
    return p;
  }

 private:
  void PackBytes(const StepCall& call) {
    const Node& n = call.main();
    const auto constant = [&](size_t i) -> const Tensor& { return *call.constant(n.input(i)); };
    auto packed = std::make_shared<RecurrentLaunch::Packed>();
    for (int64_t d = 0; d < constant(1).dim(0); ++d) {
      packed->byte_w.push_back(ByteProduct::Of(constant(1), constant(8), constant(9), d));
      packed->byte_r.push_back(ByteProduct::Of(constant(2), constant(10), constant(11), d));
    }
    launch_.packed = std::move(packed);
  }

  RecurrentLaunch launch_;  // without extents and results
  int result_[3] = {-1, -1, -1};
};

std::unique_ptr<Kernel> MakeRecurrent(const StepCall& call) {
  return std::make_unique<RecurrentKernel>(call);
}

}  // namespace

KernelList RecurrentKernels() {
  return {{"LSTM", "", "own", RefuseRecurrent, MakeRecurrent},
          {"GRU", "", "own", RefuseRecurrent, MakeRecurrent},
          {"RNN", "", "own", RefuseRecurrent, MakeRecurrent},
          {"DynamicQuantizeLSTM", kMicrosoft, "own", RefuseQuantizedLstm, MakeRecurrent}};
}

}  // namespace infer
