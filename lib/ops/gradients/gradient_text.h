#pragma once
/// A writer of the graphs that the rules of gradients.h give.
#include <algorithm>
#include <map>

#include "lib/ops/decomposition_text.h"
#include "lib/ops/gradients/gradients.h"

namespace infer {

/// The end of a Slice that goes backwards up to the first element.
inline constexpr int64_t kBeforeFirst = -INT64_MAX;

/// The text of a gradient: named parts, then what each wanted operand gets.
class GradientText : public BodyText {
 public:
  GradientText(const OpCall& call, std::span<const size_t> wanted)
      : BodyText(call), wanted_(wanted.begin(), wanted.end()) {}

  bool Wants(size_t operand) const {
    return std::find(wanted_.begin(), wanted_.end(), operand) != wanted_.end();
  }
  /// Element type of the results.
  DType dtype() const { return call().out(0).dtype; }
  /// Extents of an operand, of a result.
  Dims X(size_t i) const { return call().shape(i).static_dims(); }
  Dims Y(size_t i) const { return call().out(i).shape.static_dims(); }

  /// A new name for the result of an expression: Set("Mul(", a, ", ", b, ")").
  template <typename... Parts>
  std::string Set(const Parts&... expression) {
    std::string name = Cat("t", next_++);
    Line(Cat(name, " = ", expression...));
    return name;
  }
  /// A scalar of the results' element type.
  std::string Number(double value) { return NumberOf(dtype(), value); }
  std::string NumberOf(DType t, double value) {
    std::string name = Cat("t", next_++);
    Scalar(name, t, value);
    return name;
  }
  std::string List(const std::vector<int64_t>& values) {
    std::string name = Cat("t", next_++);
    Ints(name, values);
    return name;
  }
  /// `from` under other extents.
  std::string View(std::string_view from, const Dims& dims) {
    return Set("Reshape(", from, ", ", List(dims), ")");
  }
  std::string Permuted(std::string_view from, const std::vector<int64_t>& perm) {
    return Set("Transpose(", from, ") {perm=[", Join(perm, ", "), "]}");
  }
  /// The sum over `axes`, which stay with extent 1 where `keep`.
  std::string Total(std::string_view from, const std::vector<int64_t>& axes, bool keep) {
    return Set("ReduceSum(", from, ", ", List(axes), ") {keepdims=", keep ? 1 : 0, "}");
  }
  /// [channels] of [batch, channels, spatial..]. Neighbouring axes at once: kernels of reductions
  /// want those.
  std::string TotalOfChannels(std::string_view from, size_t rank) {
    std::vector<int64_t> spatial;
    for (size_t a = 2; a < rank; ++a) spatial.push_back(static_cast<int64_t>(a));
    return Total(spatial.empty() ? std::string(from) : Total(from, spatial, false), {0}, false);
  }
  std::string Average(std::string_view from, const std::vector<int64_t>& axes) {
    return Set("ReduceMean(", from, ", ", List(axes), ")");
  }
  /// A tensor of zeros.
  std::string Zeros(const Dims& dims) { return Set("Expand(", Number(0), ", ", List(dims), ")"); }

  /// The gradient of an operand; nothing where it is not wanted.
  void Give(size_t operand, std::string name) {
    if (Wants(operand)) given_[operand] = std::move(name);
  }
  /// Unsupported: a wanted operand got none.
  Result<std::string> Finish() const {
    std::vector<std::string> inputs, outputs;
    for (size_t i = 0; i < call().num_inputs(); ++i)
      if (call().has_input(i)) inputs.push_back(Cat("x", i));
    for (const char* kind : {"y", "g"})
      for (size_t i = 0; i < call().num_outputs(); ++i)
        if (HasGradient(call(), i)) inputs.push_back(Cat(kind, i));
    for (const size_t i : wanted_) {
      const auto it = given_.find(i);
      if (it == given_.end()) return Unsupported(Cat("operand ", i, " has no gradient"));
      outputs.push_back(it->second);
    }
    return Cat("graph gradient(", Join(inputs, ", "), ") -> (", Join(outputs, ", "), ") {\n",
               lines(), "}\n");
  }

  /// Whether result i is there and ResultHasGradient.
  static bool HasGradient(const OpCall& call, size_t i) {
    return call.out_type(i).is_tensor() && ResultHasGradient(call.def(), call.out(i).dtype);
  }

 private:
  std::vector<size_t> wanted_;
  std::map<size_t, std::string> given_;
  int next_ = 0;
};

}  // namespace infer
