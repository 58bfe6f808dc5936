#pragma once
/// Single variations of a model that may or may not leave it valid.
#include <map>

#include "lib/support/random.h"
#include "passes/rewrite/sketch.h"

namespace infer {

/// A sketch with the values that some inputs must have: they were constants.
struct VariedModel {
  Sketch sketch;
  std::map<std::string, Tensor> given;
};

/// Each returns false where there is nothing to vary.
class Variation {
 public:
  Variation(VariedModel& model, Random& random, const OpRegistry& ops)
      : m_(model), random_(random), ops_(ops) {}

  bool Attribute(Sketch::Op& op, const AttrDef& attr);
  /// All operands of type variable `var` get another type; false where nodes make one of them.
  bool ElementType(const Sketch::Op& op, std::string_view var);
  /// One of the ways below, or of passes/rewrite/rule_fuzz.h.
  bool Any();
  /// The nodes of `other` behind this model's: one of its inputs is a value of this one.
  bool Append(Sketch other);

 private:
  bool AnyAttribute();
  bool AnyElementType();
  bool Extent();
  bool Rank();
  bool OptionalOperand();
  bool OptionalResult();
  bool ConstantToInput();
  bool Scale();

  template <typename T>
  T& One(std::vector<T>& list) {
    return list[random_.Below(static_cast<uint32_t>(list.size()))];
  }
  bool Coin(uint32_t one_in = 2) { return random_.Below(one_in) == 0; }
  AttrValue AnyValue(const AttrDef& attr, const AttrValue& now);
  bool Resize(const std::string& name, const Dims& dims);
  std::optional<TensorType> TypeOf(const std::string& name) const;

  VariedModel& m_;
  Random& random_;
  const OpRegistry& ops_;
};

}  // namespace infer
