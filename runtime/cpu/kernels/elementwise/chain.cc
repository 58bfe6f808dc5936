#include "runtime/cpu/kernels/elementwise/chain.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/unary_function.h"
#include "runtime/plan_ir/groups/grouping.h"

namespace infer {
namespace {

constexpr size_t kMostOps = 24, kMostOperands = 12;
constexpr int kMostRank = 8;
/// Shorter rows cost more calls than the memory that they save.
constexpr int64_t kShortestRow = 32, kFewestChainChannels = 32;

struct BinaryOp {
  std::string_view op;
  simd::Binary kind;
};
constexpr BinaryOp kBinary[] = {{"Add", simd::Binary::kAdd},    {"Sub", simd::Binary::kSub},
                                {"Mul", simd::Binary::kMul},    {"Div", simd::Binary::kDiv},
                                {"Max", simd::Binary::kMax},    {"Min", simd::Binary::kMin},
                                {"PRelu", simd::Binary::kPRelu}};

/// 1 where it has one element for sure; -1 where that is not known.
int64_t ElementsOf(const Value& v) {
  if (!v.type().is_tensor() || !v.shape().has_rank()) return -1;
  int64_t n = 1;
  for (const Dim& d : v.shape().dims()) {
    if (!d.is_static()) return -1;
    n *= d.value();
  }
  return n;
}

class Decoder {
 public:
  explicit Decoder(const StepCall& call) : call_(call), shape_(*call.step.nodes.back()->output(0)) {
    chain_.reads.assign(call.step.inputs.size(), false);
  }

  Result<Chain> Decode() {
    const auto& nodes = call_.step.nodes;
    if (nodes.size() > kMostOps) return Unsupported("too many operators");
    if (!shape_.type().is_tensor() || !shape_.shape().has_rank()) return Unsupported("no rank");
    const int rank = shape_.shape().rank();
    if (rank < 1 || rank > kMostRank) return Unsupported("its rank");
    CountReaders();
    for (const Node* n : nodes) INFER_TRY(Add(*n));
    if (std::count(chain_.reads.begin(), chain_.reads.end(), true) >
        static_cast<int64_t>(kMostOperands))
      return Unsupported("too many operands");
    const int64_t block = chain_.by_rows ? shape_.shape()[-1].value() : kChainBlock;
    if (chain_.slots * block > kChainFloats) return Unsupported("its values do not fit L1");
    return std::move(chain_);
  }

 private:
  void CountReaders() {
    for (const Node* n : call_.step.nodes)
      for (const Value* v : n->inputs())
        if (v) ++readers_[v];
  }

  /// Where `v` lies; kNone: no such value may be read.
  ChainPlace Read(const Value* v) {
    if (const auto made = places_.find(v); made != places_.end()) return made->second;
    const int at = call_.operand(v);
    if (at < 0 || !IsF32(v)) return {};
    chain_.reads[static_cast<size_t>(at)] = true;
    return {ChainPlace::Kind::kOperand, at};
  }

  /// A slot is free again when its last reader has begun: loops work in place.
  void Release(const Node& n) {
    for (const Value* v : n.inputs()) {
      if (!v || --readers_[v] > 0) continue;
      const auto made = places_.find(v);
      if (made != places_.end() && made->second.kind == ChainPlace::Kind::kSlot)
        free_.push_back(made->second.index);
    }
  }

  ChainPlace Write(const Value* v) {
    const auto& results = call_.step.outputs;
    const auto it = std::find(results.begin(), results.end(), call_.plan.id(v));
    ChainPlace place{ChainPlace::Kind::kResult, static_cast<int>(it - results.begin())};
    if (it == results.end()) {
      place.kind = ChainPlace::Kind::kSlot;
      if (free_.empty()) {
        place.index = chain_.slots++;
      } else {
        place.index = free_.back();
        free_.pop_back();
      }
    }
    return places_[v] = place;
  }

  Status Add(const Node& n) {
    for (size_t i = 1; i < n.outputs().size(); ++i)
      if (n.output(i)) return Unsupported(Cat(n.op(), " has a second result"));
    if (!n.output(0) || !n.output(0)->type().is_tensor() || !SameShape(*n.output(0), shape_))
      return Unsupported(Cat(n.op(), " has another shape"));
    ChainOp op;
    INFER_TRY(Set(n, op));
    Release(n);
    op.out = Write(n.output(0));
    chain_.ops.push_back(op);
    return {};
  }

  Status Set(const Node& n, ChainOp& op) {
    if (n.Is("LayerNormalization") || n.Is("RMSNormalization")) return SetNorm(n, op);
    if (n.Is("QuantizeLinear")) return SetQuantize(n, op);
    if (!IsF32(n.output(0))) return Unsupported(Cat(n.op(), " is not f32"));
    for (const BinaryOp& b : kBinary)
      if (n.Is(b.op)) return SetBinary(n, b.kind, op);
    UnaryFunction f{simd::Unary::kSquare, 0, 0, true};
    if (!IsSquare(n)) {
      INFER_ASSIGN(f, UnaryFunctionOf(call_, n));
    }
    // Of wide angles by the library: kernel_elementwise.cc.
    if (simd::TakesAngles(f.kind)) return Unsupported(Cat(n.op(), " is left to its own kernel"));
    op.kind = ChainOp::Kind::kUnary;
    op.unary = f.kind;
    op.a = f.a;
    op.b = f.b;
    chain_.keeps_zero &= f.keeps_zero;
    return SetFull(n, op);
  }

  /// x^2
  bool IsSquare(const Node& n) const {
    if (!n.Is("Pow")) return false;
    const Tensor* c = call_.constant(n.input(1));
    return c && c->dtype() == DType::kF32 && c->num_elements() == 1 && c->rank() <= 1 &&
           c->At(0) == 2;
  }

  Status SetFull(const Node& n, ChainOp& op) {
    op.in[0] = Read(n.input(0));
    return op.in[0].kind != ChainPlace::Kind::kNone && SameShape(*n.input(0), shape_)
               ? Status()
               : Unsupported(Cat("the operand of ", n.op()));
  }

  Status SetBinary(const Node& n, simd::Binary kind, ChainOp& op) {
    op.kind = ChainOp::Kind::kBinary;
    op.binary = kind;
    if (n.inputs().size() != 2) return Unsupported("not two operands");
    bool full[2] = {};
    for (size_t i = 0; i < 2; ++i) {
      const Value& v = *n.input(i);
      op.in[i] = Read(&v);
      if (op.in[i].kind == ChainPlace::Kind::kNone || !v.shape().has_rank() ||
          v.shape().rank() > shape_.shape().rank())
        return Unsupported(Cat("an operand of ", n.op()));
      full[i] = SameShape(v, shape_);
      if (!full[i] && ElementsOf(v) != 1 && (RowOf(v) < kShortestRow || HasShortPixels(v)))
        return Unsupported(Cat(n.op(), " has short rows"));
    }
    if (!full[0] && !full[1])
      return Unsupported(Cat("both operands of ", n.op(), " are broadcast"));
    chain_.keeps_zero &=
        (full[0] && full[1] && kind != simd::Binary::kDiv) || kind == simd::Binary::kMul;
    return {};
  }

  /// Something per channel where few channels may lie last: convolutions leave them so.
  bool HasShortPixels(const Value& v) const {
    const Shape& all = shape_.shape();
    return all.rank() >= 3 && all.rank() <= 5 && all[1].is_static() &&
           all[1].value() < kFewestChainChannels && v.shape().rank() >= all.rank() - 1;
  }

  /// Elements that a run of `v` broadcast to the whole has; many where that is not known.
  int64_t RowOf(const Value& v) const {
    const Shape &s = v.shape(), &all = shape_.shape();
    int64_t row = 1;
    const bool ones = s.rank() == 0 || s[-1] == Dim(1);
    for (int i = 1; i <= all.rank(); ++i) {
      if (!all[-i].is_static()) return kShortestRow;
      const bool one = i > s.rank() || s[-i] == Dim(1);
      if (one != ones && all[-i] != Dim(1)) break;
      row *= all[-i].value();
    }
    return row;
  }

  Status SetNorm(const Node& n, ChainOp& op) {
    const bool layer = n.Is("LayerNormalization");
    op.kind = layer ? ChainOp::Kind::kLayerNorm : ChainOp::Kind::kRmsNorm;
    op.a = n.Attr<float>("epsilon");
    const int rank = shape_.shape().rank();
    const int64_t axis = n.Attr<int64_t>("axis");
    if (axis != -1 && axis != rank - 1) return Unsupported("rows of several dimensions");
    if (!shape_.shape()[-1].is_static() || shape_.shape()[-1].value() < kShortestRow)
      return Unsupported("the length of a row");
    if (!IsF32(n.output(0))) return Unsupported("not f32");
    for (size_t i = 1; i <= 2; ++i) {
      const Value* v = n.input(i);
      if (!v) continue;
      op.in[i] = Read(v);
      if (op.in[i].kind != ChainPlace::Kind::kOperand ||
          ElementsOf(*v) != shape_.shape()[-1].value())
        return Unsupported(Cat("scale or bias of ", n.op()));
    }
    chain_.by_rows = true;
    chain_.keeps_zero = false;
    return SetFull(n, op);
  }

  Status SetQuantize(const Node& n, ChainOp& op) {
    const Tensor *scale = call_.constant(n.input(1)), *zero = call_.constant(n.input(2));
    const DType narrow = n.output(0)->dtype();
    if (&n != call_.step.nodes.back()) return Unsupported("a quantization within");
    if (!scale || scale->dtype() != DType::kF32 || scale->num_elements() != 1 ||
        (n.input(2) && (!zero || zero->num_elements() != 1 || zero->dtype() != narrow)))
      return Unsupported("scale or zero point is not one constant");
    if (narrow != DType::kU8 && narrow != DType::kI8) return Unsupported("not 8 bits");
    op.kind = ChainOp::Kind::kQuantize;
    op.a = static_cast<float>(scale->At(0));
    op.zero_point = zero ? static_cast<int32_t>(zero->At(0)) : 0;
    op.is_signed = narrow == DType::kI8;
    chain_.quantizes = true;
    chain_.keeps_zero = false;
    return SetFull(n, op);
  }

  const StepCall& call_;
  const Value& shape_;
  Chain chain_;
  std::unordered_map<const Value*, ChainPlace> places_;  // of what the nodes make
  std::unordered_map<const Value*, int> readers_;        // that are still to come
  std::vector<int> free_;
};

}  // namespace

std::vector<std::string_view> ChainBinaryOperators() {
  std::vector<std::string_view> ops;
  for (const BinaryOp& b : kBinary) ops.push_back(b.op);
  return ops;
}

Result<Chain> DecodeChain(const StepCall& call) {
  if (call.step.borrowed > 0 || !call.step.nodes.back()->output(0)) return Unsupported("a group");
  return Decoder(call).Decode();
}

}  // namespace infer
