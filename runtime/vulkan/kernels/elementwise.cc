/// Functions of one, two and three operands, with broadcasting: f32, and bool where the device has
/// bytes in buffers.
#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/vulkan/kernels/functions.h"
#include "runtime/vulkan/kernels/kernels.h"
#include "runtime/vulkan/kernels/walk.h"

namespace infer::vulkan {
namespace {

constexpr size_t kMostAxes = 5;

std::string RefuseUnary(const StepCall& call, const DeviceFacts&) {
  if (std::string r = RefuseUnlessPlainF32(call); !r.empty()) return r;
  const auto f = UnaryCodeOf(call, call.main());
  return f.ok() ? "" : f.status().message();
}

std::unique_ptr<Kernel> MakeUnary(const StepCall& call, const Facts& facts) {
  const UnaryCode f = *UnaryCodeOf(call, call.main());
  const int x = call.operand(call.main().input(0));
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand> out) {
    LaunchBuilder b(facts, in, out);
    const int64_t n = NumElements(out[0].dims);
    b.DispatchElements("unary", {f.code}, {b.Read(x), b.Write()}, Push().U(n).F(f.a).F(f.b), n);
    auto p = b.Finish("unary");
    if (p.ok()) p->in_place = true;
    return p;
  });
}

struct BinaryRow {
  std::string_view op;
  std::string_view shader;
  int code;
};
/// Comparisons and logic; arithmetic has the numbers of ArithmeticCodeOf.
constexpr BinaryRow kBinary[] = {{"Equal", "compare", 1},
                                 {"Less", "compare", 2},
                                 {"LessOrEqual", "compare", 3},
                                 {"Greater", "compare", 4},
                                 {"GreaterOrEqual", "compare", 5},
                                 {"And", "logic", 1},
                                 {"Or", "logic", 2},
                                 {"Xor", "logic", 3}};

BinaryRow RowOf(const Node& n) {
  const auto row = std::find_if(std::begin(kBinary), std::end(kBinary),
                                [&](const BinaryRow& b) { return n.Is(b.op); });
  return row != std::end(kBinary) ? *row : BinaryRow{n.op(), "binary", ArithmeticCodeOf(n)};
}

std::string RefuseTyped(const Value* v, DType type) {
  return v && v->type().is_tensor() && v->dtype() == type
             ? ""
             : Cat("'", v ? v->name() : "", "' is not ", Name(type));
}

std::string RefuseBinary(const StepCall& call, const DeviceFacts& facts) {
  if (std::string r = RefuseEpilogue(call); !r.empty()) return r;
  const Node& n = call.main();
  const BinaryRow row = RowOf(n);
  if (n.inputs().size() != 2) return "not two operands";
  const DType in = row.shader == "logic" ? DType::kBool : DType::kF32;
  for (const Value* v : n.inputs())
    if (std::string r = RefuseTyped(v, in); !r.empty()) return r;
  if (row.shader != "binary" && !facts.int8) return "the device has no bytes in buffers (int8)";
  return "";
}

std::unique_ptr<Kernel> MakeBinary(const StepCall& call, const Facts& facts) {
  const BinaryRow row = RowOf(call.main());
  const int l = call.operand(call.main().input(0)), r = call.operand(call.main().input(1));
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const Walk w = BroadcastWalk(
            out[0].dims, {in[static_cast<size_t>(l)].dims, in[static_cast<size_t>(r)].dims});
        if (w.dims.size() > kMostAxes) return Unsupported("it broadcasts over more than five axes");
        const bool flat = w.dims.size() == 1 && w.strides[0][0] == 1 && w.strides[1][0] == 1;
        LaunchBuilder b(facts, in, out);
        const int64_t n = NumElements(out[0].dims);
        b.DispatchElements(row.shader, {row.code, flat}, {b.Read(l), b.Read(r), b.Write()},
                           Push()
                               .U(n)
                               .List(w.dims, kMostAxes, 1)
                               .List(w.strides[0], kMostAxes, 0)
                               .List(w.strides[1], kMostAxes, 0),
                           n);
        INFER_ASSIGN(Prepared p, b.Finish(row.shader));
        // Element i of an operand of the result's size stands at i.
        p.in_place = row.shader == "binary";
        return p;
      });
}

/// Of the code behind those of two operands; the second is not looked at.
std::unique_ptr<Kernel> MakeNot(const StepCall&, const Facts& facts) {
  constexpr int kNot = 4;
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand> out) {
    LaunchBuilder b(facts, in, out);
    const int64_t n = NumElements(out[0].dims);
    b.DispatchElements("logic", {kNot, true}, {b.Read(0), b.Read(0), b.Write()}, Push().U(n), n);
    return b.Finish("logic");
  });
}

std::string RefuseNot(const StepCall& call, const DeviceFacts& facts) {
  if (std::string r = RefuseEpilogue(call); !r.empty()) return r;
  return facts.int8 ? "" : "the device has no bytes in buffers (int8)";
}

std::string RefuseWhere(const StepCall& call, const DeviceFacts& facts) {
  if (std::string r = RefuseEpilogue(call); !r.empty()) return r;
  if (!facts.int8) return "the device has no bytes in buffers (int8)";
  const Node& n = call.main();
  for (size_t i = 1; i < 3; ++i)
    if (!n.input(i)->type().is_tensor() || BitWidth(n.input(i)->dtype()) != 32)
      return Cat("'", n.input(i)->name(), "' has no elements of four bytes");
  return "";
}

std::unique_ptr<Kernel> MakeWhere(const StepCall& call, const Facts& facts) {
  std::vector<int> at;
  for (const Value* v : call.main().inputs()) at.push_back(call.operand(v));
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        std::vector<Dims> dims;
        for (int i : at) dims.push_back(in[static_cast<size_t>(i)].dims);
        const Walk w = BroadcastWalk(out[0].dims, dims);
        if (w.dims.size() > kMostAxes) return Unsupported("it broadcasts over more than five axes");
        LaunchBuilder b(facts, in, out);
        const int64_t n = NumElements(out[0].dims);
        Push push;
        push.U(n).List(w.dims, kMostAxes, 1);
        for (const Dims& s : w.strides) push.List(s, kMostAxes, 0);
        b.DispatchElements("where", {}, {b.Read(at[0]), b.Read(at[1]), b.Read(at[2]), b.Write()},
                           push, n);
        return b.Finish("where");
      });
}

}  // namespace

KernelList ElementwiseKernels(const Facts& facts) {
  KernelList list;
  for (const auto& [op, domain] : UnaryOperators())
    list.push_back(Def(facts, op, domain, "unary", RefuseUnary, MakeUnary));
  for (std::string_view op : ArithmeticOperators())
    list.push_back(Def(facts, op, "", "binary", RefuseBinary, MakeBinary));
  for (const BinaryRow& row : kBinary)
    list.push_back(Def(facts, row.op, "", row.shader, RefuseBinary, MakeBinary));
  list.push_back(Def(facts, "Not", "", "logic", RefuseNot, MakeNot));
  list.push_back(Def(facts, "Where", "", "where", RefuseWhere, MakeWhere));
  return list;
}

}  // namespace infer::vulkan
