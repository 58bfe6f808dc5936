/// Operators that move elements: views without a launch, strided copies, and a table where neither
/// says it. The table comes from the reference kernel, run once per shape on the numbers of the
/// operand's elements.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "lib/ir/roles.h"
#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/known_operands.h"
#include "runtime/vulkan/kernels/kernels.h"
#include "runtime/vulkan/kernels/strided_copy.h"
#include "runtime/vulkan/kernels/walk.h"

namespace infer::vulkan {
namespace {

constexpr size_t kMostMovedAxes = 7;
/// A table takes four bytes per element of the result, its numbers eight while it is made.
constexpr int64_t kMostInTable = int64_t{1} << 22;

std::string RefuseTensor(const Value* v) {
  if (!v || !v->type().is_tensor() || v->dtype() == DType::kString) return "not a plain tensor";
  return BitWidth(v->dtype()) % 8 == 0 ? "" : Cat("elements of ", Name(v->dtype()));
}

// ---- Views -----------------------------------------------------------------------------------

std::string RefuseView(const StepCall& call, const DeviceFacts&) {
  if (std::string r = RefuseEpilogue(call); !r.empty()) return r;
  const Node& n = call.main();
  if (std::string r = RefuseTensor(n.input(0)); !r.empty()) return r;
  if (call.step.outputs != std::vector<int>{call.plan.id(n.output(0))})
    return "a second result is wanted";
  return call.operand(n.input(0)) == 0 ? "" : "the operand is not the first";
}

/// Exporters write casts to the type that is there: nothing happens, so nothing has to cross.
std::string RefuseCast(const StepCall& call, const DeviceFacts& facts) {
  const Node& n = call.main();
  if (!n.input(0)->type().is_tensor() || n.input(0)->dtype() != n.output(0)->dtype())
    return "to another type";
  return RefuseView(call, facts);
}

std::unique_ptr<Kernel> MakeView(const StepCall&, const Facts&) {
  return KernelOf(
      [](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        if (in[0].constant) return Unsupported("the operand is constant");
        if (in[0].plain_bytes() != out[0].plain_bytes()) return Unsupported("sizes differ");
        Prepared p;
        p.name = "view";
        return p;
      });
}

// ---- Strided copies --------------------------------------------------------------------------

std::string RefuseMove(const StepCall& call, const DeviceFacts& facts) {
  if (std::string r = RefuseEpilogue(call); !r.empty()) return r;
  const Node& n = call.main();
  const Value* x = n.input(0);
  if (std::string r = RefuseTensor(x); !r.empty()) return r;
  const int bits = BitWidth(x->dtype());
  if (bits > 64) return Cat("elements of ", Name(x->dtype()));
  if (bits == 8 && !facts.int8) return "the device has no bytes in buffers (int8)";
  if (bits == 16 && !facts.int16) return "the device has no 16-bit values in buffers (int16)";
  return "";
}

/// One copy for a whole result. Strides of the operand by axis of the result.
Result<Prepared> OneView(const Facts& facts, std::span<const Operand> in,
                         std::span<const Operand> out, int x, const Dims& strides, int64_t from) {
  LaunchBuilder b(facts, in, out);
  INFER_TRY(AddCopy(b, b.Read(x), b.Write(), {out[0].dims, strides, Strides(out[0].dims), from, 0},
                    BitWidth(out[0].dtype) / 8));
  return b.Finish("move");
}

std::unique_ptr<Kernel> MakeTranspose(const StepCall& call, const Facts& facts) {
  const Node& n = call.main();
  const int x = call.operand(n.input(0));
  std::vector<int64_t> perm;
  if (n.attrs().contains("perm")) perm = n.Attr<std::vector<int64_t>>("perm");
  return KernelOf([=](std::span<const Operand> in,
                      std::span<const Operand> out) -> Result<Prepared> {
    const Dims from = Strides(in[static_cast<size_t>(x)].dims);
    Dims strides;
    for (size_t d = 0; d < from.size(); ++d)
      strides.push_back(from[perm.empty() ? from.size() - 1 - d : static_cast<size_t>(perm[d])]);
    return OneView(facts, in, out, x, strides, 0);
  });
}

std::unique_ptr<Kernel> MakeExpand(const StepCall& call, const Facts& facts) {
  const int x = call.operand(call.main().input(0));
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const Dims& from = in[static_cast<size_t>(x)].dims;
        const Dims dense = Strides(from);
        Dims strides(out[0].dims.size(), 0);
        if (from.size() > strides.size()) return Unsupported("extents");
        for (size_t d = 0; d < from.size(); ++d)
          if (from[d] != 1) strides[strides.size() - from.size() + d] = dense[d];
        return OneView(facts, in, out, x, strides, 0);
      });
}

/// Operands may be empty, as the caches of a decoder before the first token are.
class ConcatKernel final : public Kernel {
 public:
  ConcatKernel(const StepCall& call, Facts facts)
      : facts_(std::move(facts)), axis_(call.main().Attr<int64_t>("axis")) {
    for (const Value* v : call.main().inputs()) parts_.push_back(call.operand(v));
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    const Dims& dims = out[0].dims;
    if (NumElements(dims) == 0) return Unsupported("the result is empty");
    INFER_ASSIGN(const int a, NormalizeAxis(axis_, static_cast<int>(dims.size())));
    const Dims to = Strides(dims);
    LaunchBuilder b(facts_, in, out);
    int64_t at = 0;
    for (int i : parts_) {
      const Dims& from = in[static_cast<size_t>(i)].dims;
      INFER_TRY(AddCopy(b, b.Read(i), b.Write(),
                        {from, Strides(from), to, 0, at * to[static_cast<size_t>(a)]},
                        BitWidth(out[0].dtype) / 8));
      at += from[static_cast<size_t>(a)];
    }
    return b.Finish("move");
  }

 private:
  Facts facts_;
  int64_t axis_;
  std::vector<int> parts_;  // operands of the step
};

std::unique_ptr<Kernel> MakeConcat(const StepCall& call, const Facts& facts) {
  return std::make_unique<ConcatKernel>(call, facts);
}

std::unique_ptr<Kernel> MakeSplit(const StepCall& call, const Facts& facts) {
  const Node& n = call.main();
  const int64_t axis = n.Attr<int64_t>("axis");
  const int x = call.operand(n.input(0));
  // Which of the node's results each of the step's is.
  std::vector<int> result(n.outputs().size(), -1);
  for (size_t o = 0; o < n.outputs().size(); ++o) {
    if (!n.output(o)) continue;
    const auto it =
        std::find(call.step.outputs.begin(), call.step.outputs.end(), call.plan.id(n.output(o)));
    if (it != call.step.outputs.end()) result[o] = static_cast<int>(it - call.step.outputs.begin());
  }
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const Dims& dims = in[static_cast<size_t>(x)].dims;
        INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
        const Dims from = Strides(dims);
        LaunchBuilder b(facts, in, out);
        int64_t at = 0;
        for (int o : result) {
          if (o < 0) return Unsupported("a result is not wanted");
          const Dims& to = out[static_cast<size_t>(o)].dims;
          INFER_TRY(AddCopy(b, b.Read(x), b.Write(static_cast<size_t>(o)),
                            {to, from, Strides(to), at * from[static_cast<size_t>(a)], 0},
                            BitWidth(out[0].dtype) / 8));
          at += to[static_cast<size_t>(a)];
        }
        return b.Finish("move");
      });
}

/// Starts and steps known before the run.
std::unique_ptr<Kernel> MakeSlice(const StepCall& call, const Facts& facts) {
  const Node& n = call.main();
  const int x = call.operand(n.input(0));
  std::vector<int> at(5, -1);
  std::vector<const Tensor*> given(5, nullptr);
  for (size_t i = 1; i < 5; ++i)
    if (n.input(i)) {
      at[i] = call.operand(n.input(i));
      given[i] = call.constant(n.input(i));
    }
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const Dims& dims = in[static_cast<size_t>(x)].dims;
        const Dims dense = Strides(dims);
        const auto known = [&](size_t i) -> const Tensor* {
          return at[i] < 0 ? nullptr : in[static_cast<size_t>(at[i])].constant;
        };
        for (size_t i = 1; i < 5; ++i)
          if (at[i] >= 0 && !known(i)) return Unsupported("bounds that only a run knows");
        const Tensor* starts = known(1);
        if (!starts) return Unsupported("it has no starts");
        Dims strides = dense;
        int64_t from = 0;
        for (int64_t k = 0; k < starts->num_elements(); ++k) {
          const int64_t axis = known(3) ? known(3)->IntAt(k) : k;
          INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
          const auto d = static_cast<size_t>(a);
          const int64_t step = known(4) ? known(4)->IntAt(k) : 1;
          int64_t start = starts->IntAt(k);
          if (start < 0) start += dims[d];
          start = std::clamp<int64_t>(start, 0, step < 0 ? dims[d] - 1 : dims[d]);
          from += start * dense[d];
          // A step past the end, which takes one element, needs no stride.
          strides[d] = out[0].dims[d] <= 1 ? 0 : dense[d] * step;
        }
        return OneView(facts, in, out, x, strides, from);
      });
}

// ---- By table --------------------------------------------------------------------------------

struct TableRow {
  std::string_view op;
  size_t fill;  ///< the operand that says what stands where nothing moves; 0: none
};
constexpr TableRow kByTable[] = {
    {"Pad", 2},          {"Gather", 0}, {"Tile", 0},           {"DepthToSpace", 0},
    {"SpaceToDepth", 0}, {"Trilu", 0},  {"GatherElements", 0}, {"Resize", 0}};

size_t FillOf(const Node& n) {
  return std::find_if(std::begin(kByTable), std::end(kByTable),
                      [&](const TableRow& r) { return n.Is(r.op); })
      ->fill;
}
/// The value that fills; nullptr: zero, or nothing does.
const Value* FillValue(const Node& n) {
  const size_t at = FillOf(n);
  return at > 0 ? n.input(at) : nullptr;
}

std::string RefuseTable(const StepCall& call, const DeviceFacts&) {
  if (std::string r = RefuseEpilogue(call); !r.empty()) return r;
  const Node& n = call.main();
  const Value* x = n.input(0);
  if (!x->type().is_tensor() || BitWidth(x->dtype()) != 32) return "no elements of four bytes";
  if (call.constant(x)) return "the operand is constant";
  if (Interpolates(n)) return "it interpolates";
  if (const Value* fill = FillValue(n); fill && !call.constant(fill))
    return "what fills is no constant";
  return "";
}

class TableKernel final : public Kernel {
 public:
  TableKernel(const StepCall& call, Facts facts)
      : node_(call.main()), ops_(call.plan.graph.ops()), facts_(std::move(facts)) {
    for (const Value* v : node_.inputs()) operand_.push_back(call.operand(v));
    if (const Value* fill = FillValue(node_)) fill_ = *call.constant(fill);
  }
  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    INFER_ASSIGN(std::vector<int32_t> table, TableOf(in, out));
    uint32_t fill = 0;
    if (fill_.defined()) std::memcpy(&fill, fill_.raw(), sizeof fill);
    LaunchBuilder b(facts_, in, out);
    const int64_t n = NumElements(out[0].dims);
    b.DispatchElements("table", {}, {b.Read(operand_[0]), b.Table(std::move(table)), b.Write()},
                       Push().U(n).U(fill), n);
    return b.Finish("table");
  }

 private:
  /// By element of the result: of the operand, or -1.
  Result<std::vector<int32_t>> TableOf(std::span<const Operand> in,
                                       std::span<const Operand> out) const {
    const Operand& x = in[static_cast<size_t>(operand_[0])];
    if (std::max(NumElements(x.dims), NumElements(out[0].dims)) > kMostInTable)
      return Unsupported("too large for a table of its elements");
    Tensor numbers(DType::kI64, x.dims);
    auto data = numbers.mutable_data<int64_t>();
    std::iota(data.begin(), data.end(), 1);  // 0 fills
    const auto stand_in = [&](size_t i) -> std::optional<Tensor> {
      if (i == 0) return numbers;
      if (node_.input(i) == FillValue(node_)) return Tensor::Zeros(DType::kI64, fill_.dims());
      return std::nullopt;
    };
    INFER_ASSIGN(const auto results, EvaluateKnown(node_, ops_, in, operand_, stand_in));
    const Tensor& map = results[0].tensor();
    if (map.dims() != out[0].dims) return Unsupported("extents");
    std::vector<int32_t> table;
    for (int64_t v : map.data<int64_t>()) table.push_back(static_cast<int32_t>(v - 1));
    return table;
  }

  const Node& node_;
  const OpRegistry& ops_;
  Facts facts_;
  std::vector<int> operand_;  // by input of the node
  Tensor fill_;
};

std::unique_ptr<Kernel> MakeTable(const StepCall& call, const Facts& facts) {
  return std::make_unique<TableKernel>(call, facts);
}

}  // namespace

Status AddCopy(LaunchBuilder& b, LaunchBuilder::Arg x, LaunchBuilder::Arg y, const StridedCopy& c,
               int64_t bytes) {
  const Walk w = Joined(c.extents, {c.from_strides, c.to_strides});
  if (w.dims.size() > kMostMovedAxes) return Unsupported("more than seven axes move");
  const int64_t n = NumElements(c.extents);
  if (n == 0) return {};
  b.DispatchElements(Cat("move", bytes), {}, {x, y},
                     Push()
                         .U(n)
                         .U(c.from)
                         .U(c.to)
                         .List(w.dims, kMostMovedAxes, 1)
                         .List(w.strides[0], kMostMovedAxes, 0)
                         .List(w.strides[1], kMostMovedAxes, 0),
                     n);
  return {};
}

KernelList MoveKernels(const Facts& facts) {
  KernelList list;
  list.push_back(Def(facts, "", "", "view", RefuseView, MakeView));
  list.back().traits = Trait::kView;
  list.push_back(Def(facts, "Cast", "", "view", RefuseCast, MakeView));
  list.push_back(Def(facts, "Transpose", "", "move", RefuseMove, MakeTranspose));
  list.push_back(Def(facts, "Expand", "", "move", RefuseMove, MakeExpand));
  list.push_back(Def(facts, "Concat", "", "move", RefuseMove, MakeConcat));
  list.push_back(Def(facts, "Split", "", "move", RefuseMove, MakeSplit));
  list.push_back(Def(facts, "Slice", "", "move", RefuseMove, MakeSlice));
  for (const TableRow& row : kByTable)
    list.push_back(Def(facts, row.op, "", "table", RefuseTable, MakeTable));
  return list;
}

}  // namespace infer::vulkan
