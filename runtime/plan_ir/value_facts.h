#pragma once
/// ValueFacts: all that extents of the inputs say of a value. Equal facts are one object, so that
/// plans share them and comparing them costs nothing. Internal to runtime/plan_ir.
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lib/tensor/tensor.h"

namespace infer {

struct ValueFacts {
  ValueType type;
  std::optional<std::vector<Dim>> elements;  ///< as Value::elements
  std::optional<Tensor> inferred;            ///< as Value::known, of what is no constant
  Tensor known;                              ///< what no step has to make; undefined: a step has to
  const Tensor* constant = nullptr;          ///< of the plan, which keeps it
  bool changed = false;                      ///< other facts hold than the plan's graph stores
  bool late = false;       ///< only the run knows its extents, or those of its sources
  bool plannable = false;  ///< IsPlannable(type)
  int64_t bytes = 0;       ///< PlannedBytes(type)
  /// The value's tensor where no step has to make it; nullptr where one has.
  const Tensor* given() const { return constant ? constant : known.defined() ? &known : nullptr; }
};
using FactsPtr = std::shared_ptr<const ValueFacts>;

/// Keeps facts that somebody holds, each once. Not thread-safe; the facts are immutable.
class FactTable {
 public:
  /// `facts` without plannable and bytes, which follow from the type.
  FactsPtr Intern(ValueFacts facts);
  size_t size() const { return facts_.size(); }

 private:
  void DropUnheld();
  std::unordered_multimap<uint64_t, FactsPtr> facts_;
  size_t drop_at_ = 256;
};

/// Both are undefined, or of one type and the same bytes. Strings are the same in one buffer only.
bool SameTensor(const Tensor& a, const Tensor& b);

/// Can lie in a planned buffer: a tensor of static shape, not of strings.
bool IsPlannable(const ValueType& type);
/// Bytes of the plain form; 0 where not plannable.
int64_t PlannedBytes(const ValueType& type);

}  // namespace infer
