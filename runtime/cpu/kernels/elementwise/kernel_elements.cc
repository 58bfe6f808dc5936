/// Operators on elements of any type, by the loops of simd/elements.h: integer and f64 arithmetic,
/// comparisons, logic, Cast, Where. The results are the reference kernels', bit for bit. What f32
/// has of its own stands before them in the list (kernel_elementwise.cc).
#include <algorithm>
#include <cstring>

#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/element_type.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/elements.h"

namespace infer {
namespace {

using simd::Element;
using simd::ElementBinary;
using simd::Elements;
using simd::ElementUnary;

int64_t WidthOf(DType t) { return BitWidth(t) / 8; }

Prepared Named(std::string_view what) {
  Prepared p;
  p.name = Cat("own:", what);
  return p;
}

/// A walk over the result by up to three operands: offsets and steps per row. Without broadcasting,
/// or with single elements only, it is one row.
class Rows {
 public:
  Rows(const Dims& out, const std::vector<Dims>& operands)
      : loop_(StridedLoop::Broadcast(out, operands)), flat_(true) {
    for (size_t k = 0; k < operands.size(); ++k) {
      steps_ |= loop_.inner_stride(k) != 0 ? 1 << k : 0;
      const int64_t n = NumElements(operands[k]);
      flat_ &= n == 1 || n == loop_.size();
    }
    operands_ = operands.size();
  }
  /// Bit k: operand k walks along a row.
  int steps() const { return steps_; }
  /// row(out, offsets, n) on several lanes.
  template <typename Row>
  void Run(const Row& row) const {
    if (flat_) {
      ForRange(loop_.size(), kElementGrain, [&](int64_t begin, int64_t end) {
        int64_t offsets[3] = {};
        for (size_t k = 0; k < operands_; ++k) offsets[k] = steps_ >> k & 1 ? begin : 0;
        row(begin, offsets, end - begin);
      });
    } else if (loop_.size() <= kElementGrain) {
      loop_.ForEachRow(0, loop_.size(), row);
    } else {
      loop_.Run(row);
    }
  }

 private:
  StridedLoop loop_;
  size_t operands_ = 0;
  int steps_ = 0;
  bool flat_;
};

// ---- Binary ----------------------------------------------------------------------------------

struct ElementBinaryOp {
  std::string_view op;
  ElementBinary kind;
  bool swap = false;
};
constexpr ElementBinaryOp kElementBinaries[] = {
    {"Add", ElementBinary::kAdd},
    {"Sub", ElementBinary::kSub},
    {"Mul", ElementBinary::kMul},
    {"Div", ElementBinary::kDiv},
    {"Mod", ElementBinary::kMod},
    {"Max", ElementBinary::kMax},
    {"Min", ElementBinary::kMin},
    {"And", ElementBinary::kAnd},
    {"Or", ElementBinary::kOr},
    {"Xor", ElementBinary::kXor},
    {"BitwiseAnd", ElementBinary::kAnd},
    {"BitwiseOr", ElementBinary::kOr},
    {"BitwiseXor", ElementBinary::kXor},
    {"BitShift", ElementBinary::kShiftLeft},
    {"Equal", ElementBinary::kEqual},
    {"Less", ElementBinary::kLess},
    {"Greater", ElementBinary::kLess, true},
    {"LessOrEqual", ElementBinary::kLessOrEqual},
    {"GreaterOrEqual", ElementBinary::kLessOrEqual, true}};

struct BinaryCall {
  Elements::BinaryFn loop = nullptr;
  bool swap = false;
};

BinaryCall BinaryOf(const Node& n) {
  const auto& op = *std::find_if(std::begin(kElementBinaries), std::end(kElementBinaries),
                                 [&](const ElementBinaryOp& b) { return n.Is(b.op); });
  ElementBinary kind = op.kind;
  if (n.Is("Mod") && n.Attr<int64_t>("fmod") != 0) kind = ElementBinary::kFMod;
  if (n.Is("BitShift") && n.Attr<std::string>("direction") == "RIGHT")
    kind = ElementBinary::kShiftRight;
  auto type = ElementOf(ElementTypeOf(n.input(0)));
  if (type == Element::kBool) type = Element::kU8;  // 0 or 1
  if (!type) return {};
  return {simd::TheElements().binary[static_cast<int>(kind)][static_cast<int>(*type)], op.swap};
}

std::string RefuseBinaryElements(const StepCall& call) {
  const Node& n = call.main();
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (n.inputs().size() != 2) return "not two operands";
  if (ElementTypeOf(n.input(0)) != ElementTypeOf(n.input(1))) return "types differ";
  return BinaryOf(n).loop ? "" : Cat("elements of ", Name(ElementTypeOf(n.input(0))));
}

std::unique_ptr<Kernel> MakeBinaryElements(const StepCall& call) {
  const Node& n = call.main();
  const BinaryCall b = BinaryOf(n);
  const int first = call.operand(n.input(b.swap ? 1 : 0)),
            second = call.operand(n.input(b.swap ? 0 : 1));
  const int64_t width = WidthOf(ElementTypeOf(n.input(0)));
  return KernelOf([=](std::span<const Operand> in,
                      std::span<const Operand> out) -> Result<Prepared> {
    const Rows rows(out[0].dims,
                    {in[static_cast<size_t>(first)].dims, in[static_cast<size_t>(second)].dims});
    const int64_t out_width = WidthOf(out[0].dtype);
    const size_t y = in.size();
    Prepared p = Named("elements");
    p.in_place = out_width == width;
    p.launch = LaunchOf([=, loop = b.loop](std::byte* const* args) {
      const std::byte *a = args[first], *c = args[second];
      std::byte* to = args[y];
      rows.Run([=, &rows](int64_t at, const int64_t* from, int64_t n) {
        loop(a + from[0] * width, c + from[1] * width, to + at * out_width, n, rows.steps());
      });
    });
    return p;
  });
}

// ---- Any number of operands ------------------------------------------------------------------

struct VariadicOp {
  std::string_view op;
  ElementBinary kind;
};
constexpr VariadicOp kVariadic[] = {{"Max", ElementBinary::kMax},
                                    {"Min", ElementBinary::kMin},
                                    {"Sum", ElementBinary::kAdd},
                                    {"Mean", ElementBinary::kAdd}};

Elements::BinaryFn VariadicFn(const Node& n, bool last) {
  auto kind = std::find_if(std::begin(kVariadic), std::end(kVariadic), [&](const VariadicOp& v) {
                return n.Is(v.op);
              })->kind;
  if (last) kind = ElementBinary::kDiv;
  const auto type = ElementOf(ElementTypeOf(n.input(0)));
  return type ? simd::TheElements().binary[static_cast<int>(kind)][static_cast<int>(*type)]
              : nullptr;
}

std::string RefuseVariadic(const StepCall& call) {
  const Node& n = call.main();
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  for (const Value* v : n.inputs())
    if (ElementTypeOf(v) != ElementTypeOf(n.input(0))) return "types differ";
  return VariadicFn(n, false) ? "" : Cat("elements of ", Name(ElementTypeOf(n.input(0))));
}

/// The left fold in the result, then what divides a mean.
std::unique_ptr<Kernel> MakeVariadic(const StepCall& call) {
  const Node& n = call.main();
  const auto fold = VariadicFn(n, false), divide = VariadicFn(n, true);
  const bool mean = n.Is("Mean");
  const DType type = ElementTypeOf(n.input(0));
  std::vector<int> operands;
  for (const Value* v : n.inputs()) operands.push_back(call.operand(v));
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        Prepared p = Named("elements");
        if (operands.size() == 1) {
          p.name = "view";
          return p;
        }
        const Dims& dims = out[0].dims;
        std::vector<Rows> rows;
        for (size_t k = 1; k < operands.size(); ++k)
          rows.emplace_back(
              dims, std::vector<Dims>{k == 1 ? in[static_cast<size_t>(operands[0])].dims : dims,
                                      in[static_cast<size_t>(operands[k])].dims});
        Tensor count(type, {1});
        count.Set(0, static_cast<double>(operands.size()));
        const int64_t width = WidthOf(type), size = NumElements(dims);
        const size_t y = in.size();
        p.launch = LaunchOf([=](std::byte* const* args) {
          std::byte* to = args[y];
          for (size_t k = 1; k < operands.size(); ++k) {
            const std::byte *a = k == 1 ? args[operands[0]] : to, *b = args[operands[k]];
            rows[k - 1].Run([=, &row = rows[k - 1]](int64_t at, const int64_t* from, int64_t m) {
              fold(a + from[0] * width, b + from[1] * width, to + at * width, m, row.steps());
            });
          }
          if (mean) divide(to, count.raw(), to, size, simd::kFirstSteps);
        });
        return p;
      });
}

// ---- Unary and conversions -------------------------------------------------------------------

struct UnaryOp {
  std::string_view op;
  ElementUnary kind;
};
constexpr UnaryOp kUnary[] = {
    {"Neg", ElementUnary::kNeg},     {"Abs", ElementUnary::kAbs},
    {"Sign", ElementUnary::kSign},   {"Relu", ElementUnary::kRelu},
    {"Not", ElementUnary::kNot},     {"BitwiseNot", ElementUnary::kInvert},
    {"IsNaN", ElementUnary::kIsNaN}, {"IsInf", ElementUnary::kIsInf}};

Elements::UnaryFn CastFn(DType from, DType to) {
  const auto a = ElementOf(from), b = ElementOf(to);
  if (!a || !b) return nullptr;
  return simd::TheElements().cast[static_cast<int>(*a)][static_cast<int>(*b)];
}

Elements::UnaryFn UnaryFnOf(const Node& n) {
  const DType from = ElementTypeOf(n.input(0));
  if (n.Is("Cast") || n.Is("CastLike")) return CastFn(from, ElementTypeOf(n.output(0)));
  ElementUnary kind = std::find_if(std::begin(kUnary), std::end(kUnary), [&](const UnaryOp& u) {
                        return n.Is(u.op);
                      })->kind;
  if (n.Is("IsInf")) {
    const bool negative = n.Attr<int64_t>("detect_negative") != 0,
               positive = n.Attr<int64_t>("detect_positive") != 0;
    if (!negative && !positive) return nullptr;
    if (!positive) kind = ElementUnary::kIsNegativeInf;
    if (!negative) kind = ElementUnary::kIsPositiveInf;
  }
  auto type = ElementOf(from);
  if (type == Element::kBool) type = Element::kU8;
  return type ? simd::TheElements().unary[static_cast<int>(kind)][static_cast<int>(*type)]
              : nullptr;
}

std::string RefuseUnaryElements(const StepCall& call) {
  const Node& n = call.main();
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (call.operand(n.input(0)) != 0) return "the operand is not the first";
  return UnaryFnOf(n) ? "" : Cat("elements of ", Name(ElementTypeOf(n.input(0))));
}

std::unique_ptr<Kernel> MakeUnaryElements(const StepCall& call) {
  const auto loop = UnaryFnOf(call.main());
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const int64_t n = NumElements(in[0].dims), from = WidthOf(in[0].dtype),
                      to = WidthOf(out[0].dtype);
        const size_t y = in.size();
        Prepared p = Named("elements");
        if (in[0].dtype == out[0].dtype && in[0].dims == out[0].dims &&
            loop == CastFn(in[0].dtype, out[0].dtype)) {
          p.name = "view";
          return p;
        }
        p.in_place = from == to;
        p.unused.assign(in.size(), true);
        p.unused[0] = false;
        p.launch = LaunchOf([=](std::byte* const* args) {
          ForRange(n, kElementGrain, [=](int64_t begin, int64_t end) {
            loop(args[0] + begin * from, args[y] + begin * to, end - begin);
          });
        });
        return p;
      });
}

// ---- Clip of integers ------------------------------------------------------------------------

/// Of floats f32 has loops of its own; bounds that are NaN, which integers have not, count
/// otherwise.
std::string RefuseClipElements(const StepCall& call) {
  const Node& n = call.main();
  const DType t = ElementTypeOf(n.input(0));
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (!IsInteger(t) || !ElementOf(t)) return Cat("elements of ", Name(t));
  for (const Value* v : n.inputs())
    if (v && ElementTypeOf(v) != t) return "types differ";
  return "";
}

std::unique_ptr<Kernel> MakeClipElements(const StepCall& call) {
  const Node& n = call.main();
  const int x = call.operand(n.input(0)), low = call.operand(n.input(1)),
            high = call.operand(n.input(2));
  const auto element = static_cast<int>(*ElementOf(ElementTypeOf(n.input(0))));
  const auto& binary = simd::TheElements().binary;
  const auto above = binary[static_cast<int>(ElementBinary::kMax)][element],
             below = binary[static_cast<int>(ElementBinary::kMin)][element];
  const int64_t width = WidthOf(ElementTypeOf(n.input(0)));
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    for (int bound : {low, high})
      if (bound >= 0 && NumElements(in[static_cast<size_t>(bound)].dims) != 1)
        return Unsupported("a bound is no scalar");
    const int64_t size = NumElements(in[static_cast<size_t>(x)].dims);
    const size_t y = in.size();
    Prepared p = Named("elements");
    p.in_place = size > 1;  // a single element may be a bound, too
    p.launch = LaunchOf([=](std::byte* const* args) {
      constexpr int64_t kPiece = 2048;
      ForRange(size, kElementGrain, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i += kPiece) {
          const int64_t m = std::min(kPiece, end - i);
          const std::byte* from = args[x] + i * width;
          std::byte* const to = args[y] + i * width;
          if (low < 0 && high < 0) std::memmove(to, from, static_cast<size_t>(m * width));
          if (low >= 0) {
            above(from, args[low], to, m, simd::kFirstSteps);
            from = to;
          }
          if (high >= 0) below(from, args[high], to, m, simd::kFirstSteps);
        }
      });
    });
    return p;
  });
}

// ---- Where -----------------------------------------------------------------------------------

std::string RefuseWhere(const StepCall& call) {
  const Node& n = call.main();
  const DType t = ElementTypeOf(n.input(1));
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (ElementTypeOf(n.input(0)) != DType::kBool) return "the condition is not bool";
  if (t != ElementTypeOf(n.input(2))) return "types differ";
  return ElementOf(t) ? "" : Cat("elements of ", Name(t));
}

/// n copies of an element, or n elements.
void CopyOrFill(const std::byte* from, std::byte* to, int64_t n, int64_t width, bool steps) {
  if (steps)
    std::memcpy(to, from, static_cast<size_t>(n * width));
  else
    for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * width, from, static_cast<size_t>(width));
}

std::unique_ptr<Kernel> MakeWhere(const StepCall& call) {
  const Node& n = call.main();
  const int c = call.operand(n.input(0)), a = call.operand(n.input(1)),
            b = call.operand(n.input(2));
  const int64_t width = WidthOf(ElementTypeOf(n.input(1)));
  const auto choose = simd::TheElements().where[width == 8   ? 3
                                                : width == 4 ? 2
                                                             : static_cast<int>(width) - 1];
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        auto dims = [&](int i) { return in[static_cast<size_t>(i)].dims; };
        const Rows rows(out[0].dims, {dims(c), dims(a), dims(b)});
        const size_t y = in.size();
        Prepared p = Named("elements");
        p.in_place = true;  // the condition is as large as the result only where both are bytes
        p.launch = LaunchOf([=](std::byte* const* args) {
          const auto* cond = As<uint8_t>(static_cast<const std::byte*>(args[c]));
          const std::byte *u = args[a], *v = args[b];
          std::byte* to = args[y];
          rows.Run([=, &rows](int64_t at, const int64_t* from, int64_t count) {
            const int steps = rows.steps() >> 1;
            const std::byte *yes = u + from[1] * width, *no = v + from[2] * width;
            if (rows.steps() & 1)
              choose(cond + from[0], yes, no, to + at * width, count, steps);
            else if (cond[from[0]])
              CopyOrFill(yes, to + at * width, count, width, steps & simd::kFirstSteps);
            else
              CopyOrFill(no, to + at * width, count, width, steps & simd::kSecondSteps);
          });
        });
        return p;
      });
}

}  // namespace

KernelList ElementKernels() {
  KernelList list;
  for (const ElementBinaryOp& b : kElementBinaries)
    list.push_back({b.op, "", "own", RefuseBinaryElements, MakeBinaryElements});
  for (const VariadicOp& v : kVariadic)
    list.push_back({v.op, "", "own", RefuseVariadic, MakeVariadic});
  for (const UnaryOp& u : kUnary)
    list.push_back({u.op, "", "own", RefuseUnaryElements, MakeUnaryElements});
  for (std::string_view op : {"Cast", "CastLike"})
    list.push_back({op, "", "own", RefuseUnaryElements, MakeUnaryElements});
  list.push_back({"Where", "", "own", RefuseWhere, MakeWhere});
  list.push_back({"Clip", "", "own", RefuseClipElements, MakeClipElements});
  return list;
}

}  // namespace infer
