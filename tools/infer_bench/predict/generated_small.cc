/// What stands between the large layers: element-wise steps, reductions, moves, of one element to a
/// million.
#include <algorithm>
#include <numeric>

#include "tools/infer_bench/predict/generated.h"

namespace infer::bench {
namespace {

class SmallMaker {
 public:
  explicit SmallMaker(Maker& m) : m_(m), net_(m.net) {}

  void Make() {
    // Half of them tiny, as in models of speech and tables.
    most_ = m_.Maybe(0.5) ? m_.Between(8, 4000) : m_.Between(4000, 600'000);
    Ints dims;
    int64_t left = most_;
    for (int64_t rank = m_.Of({2, 3, 3, 4, 4}); rank > 1; --rank) {
      dims.push_back(m_.Between(1, std::max<int64_t>(left / 2, 1)));
      left = std::max<int64_t>(left / dims.back(), 1);
    }
    dims.push_back(left);
    m_.Shuffle(dims);
    Value* x = m_.FloatInput("input", dims);
    for (int64_t steps = m_.Between(3, most_ < 4000 ? 24 : 10); steps > 0; --steps) x = Next(x);
    net_.Output(x, "output");
  }

 private:
  Ints DimsOf(const Value* v) const {
    Ints dims;
    if (net_.status().ok())
      for (int a = 0; a < v->shape().rank(); ++a) dims.push_back(net_.Extent(v, a));
    return dims;
  }
  int64_t Size(const Value* v) const {
    const Ints d = DimsOf(v);
    return std::accumulate(d.begin(), d.end(), int64_t{1}, std::multiplies<>());
  }
  int64_t Axis(const Value* v) const {
    return static_cast<int64_t>(
        m_.random.Below(static_cast<uint32_t>(std::max<size_t>(DimsOf(v).size(), 1))));
  }

  Value* Next(Value* x) {
    const double kind = m_.random.Uniform();
    if (kind < 0.30) return Unary(x);
    if (kind < 0.52) return Binary(x);
    if (kind < 0.62) return Rows(x);
    if (kind < 0.82) return Move(x);
    if (kind < 0.90) return Parts(x);
    if (kind < 0.95) return Multiply(x);
    return Choose(x);
  }

  Value* Unary(Value* x) {
    static const std::vector<const char*> kOps = {
        "Relu", "Sigmoid", "Tanh",     "Exp",        "Sqrt", "Abs", "Neg",       "Erf",     "Floor",
        "Sin",  "Cos",     "Softplus", "Reciprocal", "Sign", "Elu", "LeakyRelu", "Sigmoid", "Tanh"};
    return net_.Op(kOps[m_.random.Below(static_cast<uint32_t>(kOps.size()))], {x});
  }

  /// With a number, a row, a column, or a tensor of the same shape.
  Value* Binary(Value* x) {
    static const std::vector<const char*> kOps = {"Add", "Add", "Mul", "Mul", "Sub",
                                                  "Div", "Max", "Min", "Pow"};
    const char* op = kOps[m_.random.Below(static_cast<uint32_t>(kOps.size()))];
    const Ints dims = DimsOf(x);
    if (std::string_view(op) == "Pow")
      return net_.Op(op, {x, net_.JsonNumber(m_.Maybe(0.7) ? 2.0f : 0.7f)});
    switch (m_.random.Below(5)) {
      case 0: return net_.Op(op, {x, net_.JsonNumber(0.7f)});
      case 1: return net_.Op(op, {x, net_.Weight({dims.empty() ? 1 : dims.back()}, 0.1, 1)});
      case 2: {
        Dims column(dims.begin(), dims.end());
        if (!column.empty()) column.back() = 1;
        return net_.Op(op, {x, net_.Weight(column, 0.1, 1)});
      }
      case 3: return net_.Op(op, {x, net_.Op("Tanh", {x})});
      default: return net_.Op(op, {x, net_.Weight(Dims(dims.begin(), dims.end()), 0.1, 1)});
    }
  }

  Value* Rows(Value* x) {
    const int64_t axis = m_.Maybe(0.7) ? -1 : Axis(x);
    switch (m_.random.Below(6)) {
      case 0:
      case 1: return net_.Op("Softmax", {x}, {{"axis", axis}});
      case 2: return net_.LayerNorm(x, 1e-5f);
      default: {
        static const std::vector<const char*> kOps = {"ReduceMean", "ReduceSum", "ReduceMax"};
        Value* r =
            net_.Op(kOps[m_.random.Below(3)], {x, net_.List({axis})}, {{"keepdims", int64_t{1}}});
        return m_.Maybe(0.75) ? net_.Op("Sub", {x, r}) : r;
      }
    }
  }

  Value* Move(Value* x) {
    const Ints dims = DimsOf(x);
    const auto rank = static_cast<int64_t>(dims.size());
    switch (m_.random.Below(6)) {
      case 0:
      case 1: {
        Ints perm(dims.size());
        std::iota(perm.begin(), perm.end(), 0);
        const bool all = rank < 3 || m_.Maybe(0.5);
        m_.Shuffle(std::span(perm).first(perm.size() - (all ? 0 : 1)));
        return net_.Transpose(x, perm);
      }
      case 2: {
        const int64_t axis = Axis(x), extent = rank > 0 ? dims[static_cast<size_t>(axis)] : 1;
        if (extent < 2) return Unary(x);
        return net_.Op("Slice", {x, net_.List({extent / 4}), net_.List({extent}), net_.List({axis}),
                                 net_.List({m_.Maybe(0.2) ? 2 : 1})});
      }
      case 3: {
        const int64_t axis = Axis(x), extent = rank > 0 ? dims[static_cast<size_t>(axis)] : 1;
        Ints rows;
        for (int64_t i = 0; i < std::min<int64_t>(extent, 64); ++i)
          rows.push_back(static_cast<int64_t>(m_.random.Below(static_cast<uint32_t>(extent))));
        return net_.Op("Gather", {x, net_.List(rows)}, {{"axis", axis}});
      }
      case 4: {
        if (Size(x) > most_) return Unary(x);
        Ints pads(2 * dims.size(), 0);
        if (pads.empty()) return x;
        pads[dims.size() - 1] = 1, pads.back() = m_.Of({0, 1, 3});
        return net_.Op("Pad", {x, net_.List(pads)});
      }
      default: {
        const int64_t split = rank > 0 && dims.back() % 2 == 0 ? 2 : 1;
        Ints shape(dims.begin(), dims.end());
        if (shape.empty()) return x;
        shape.back() /= split;
        shape.push_back(split);
        if (shape.size() > 4) return net_.Reshape(x, {dims[0], -1});
        return net_.Transpose(net_.Reshape(x, shape), [&] {
          Ints perm(shape.size());
          std::iota(perm.begin(), perm.end(), 0);
          std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
          return perm;
        }());
      }
    }
  }

  /// Split and joined, or joined with itself.
  Value* Parts(Value* x) {
    const Ints dims = DimsOf(x);
    if (dims.empty()) return x;
    const int64_t axis = Axis(x), extent = dims[static_cast<size_t>(axis)];
    if (extent >= 2 && extent % 2 == 0 && m_.Maybe(0.5)) {
      const Values parts =
          net_.OpN("Split", {x, net_.List({extent / 2, extent / 2})}, 2, {{"axis", axis}});
      return m_.Maybe(0.5) ? net_.Mul(parts[0], net_.Op("Sigmoid", {parts[1]}))
                           : net_.Op("Concat", {parts[1], parts[0]}, {{"axis", axis}});
    }
    if (Size(x) > most_) return Unary(x);
    return net_.Op("Concat", {x, net_.Op("Neg", {x})}, {{"axis", axis}});
  }

  /// x [.., k] * W [k, n], or x x^T per matrix.
  Value* Multiply(Value* x) {
    const Ints dims = DimsOf(x);
    if (dims.size() < 2 || dims.back() > 4096) return Unary(x);
    const int64_t rows = Size(x) / std::max<int64_t>(dims.back(), 1);
    if (dims.size() >= 3 && m_.Maybe(0.5) && dims[dims.size() - 2] <= 256 &&
        rows * dims[dims.size() - 2] < most_) {
      Ints perm(dims.size());
      std::iota(perm.begin(), perm.end(), 0);
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      return net_.Op("MatMul", {x, net_.Transpose(x, perm)});
    }
    const int64_t n = std::clamp<int64_t>(
        m_.Between(1, 512), 1, std::max<int64_t>(2 * most_ / std::max<int64_t>(rows, 1), 1));
    return net_.Op("MatMul", {x, net_.Weight({dims.back(), n}, 0.1)});
  }

  Value* Choose(Value* x) {
    Value* is = net_.Op("Greater", {x, net_.JsonNumber(0.1f)});
    if (m_.Maybe(0.5)) return net_.Op("Cast", {is}, {{"to", int64_t{1}}});
    return net_.Op("Where", {is, x, net_.JsonNumber(0)});
  }

  Maker& m_;
  Net& net_;
  int64_t most_ = 0;
};

}  // namespace

void MakeSmallSteps(Maker& m) { SmallMaker(m).Make(); }

}  // namespace infer::bench
