#include "runtime/plan_ir/value_facts.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "lib/support/hash.h"

namespace infer {
namespace {

/// Larger constants are told apart by where they lie.
constexpr int64_t kComparedBytes = 8 << 10;
/// Of a tensor's bytes so many go into the hash.
constexpr size_t kHashedBytes = 64;

void Mix(uint64_t& hash, uint64_t with) {
  hash = (hash ^ with) * 0x9E3779B97F4A7C15ull;
  hash ^= hash >> 29;
}

void MixTensor(uint64_t& hash, const Tensor& t) {
  if (!t.defined()) return;
  Mix(hash, static_cast<uint64_t>(t.num_elements()) + 1);
  if (t.dtype() == DType::kString) return;
  const auto bytes = t.bytes();
  for (size_t i = 0; i < std::min(bytes.size(), kHashedBytes); ++i)
    Mix(hash, static_cast<uint64_t>(bytes[i]));
}

/// What SameConstant tells apart: thousands of small constants may differ by their contents alone.
void MixConstant(uint64_t& hash, const Tensor& t) {
  if (t.dtype() == DType::kString || t.byte_size() > kComparedBytes)
    Mix(hash, reinterpret_cast<uintptr_t>(&t));
  else
    Mix(hash, HashBytes(t.raw(), static_cast<size_t>(t.byte_size())));
}

uint64_t HashOf(const ValueFacts& f) {
  uint64_t hash = static_cast<uint64_t>(f.type.dtype());
  if (f.type.is_tensor() && f.type.shape().has_rank())
    for (const Dim& d : f.type.shape().dims())
      Mix(hash, d.is_static() ? static_cast<uint64_t>(d.value()) : 1);
  MixTensor(hash, f.known);
  if (f.constant) MixConstant(hash, *f.constant);
  Mix(hash, (f.elements ? f.elements->size() : 0) * 4 + (f.changed ? 2 : 0) + (f.late ? 1 : 0));
  return hash;
}

bool SameConstant(const Tensor* a, const Tensor* b) {
  if (!a || !b) return a == b;
  if (a == b) return true;
  return a->dtype() != DType::kString && a->byte_size() <= kComparedBytes && SameTensor(*a, *b);
}

bool Same(const ValueFacts& a, const ValueFacts& b) {
  return a.changed == b.changed && a.late == b.late && a.type == b.type &&
         a.elements == b.elements && a.inferred.has_value() == b.inferred.has_value() &&
         (!a.inferred || SameTensor(*a.inferred, *b.inferred)) && SameTensor(a.known, b.known) &&
         SameConstant(a.constant, b.constant);
}

}  // namespace

bool SameTensor(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  if (a.raw() == b.raw()) return true;
  return a.dtype() != DType::kString &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.byte_size())) == 0;
}

bool IsPlannable(const ValueType& type) {
  return type.is_tensor() && type.tensor().is_static() && type.tensor().dtype != DType::kString;
}

int64_t PlannedBytes(const ValueType& type) {
  if (!IsPlannable(type)) return 0;
  return PackedBytes(type.tensor().dtype, NumElements(type.tensor().shape.static_dims()));
}

FactsPtr FactTable::Intern(ValueFacts facts) {
  const uint64_t hash = HashOf(facts);
  const auto [begin, end] = facts_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (Same(*it->second, facts)) return it->second;
  if (facts_.size() >= drop_at_) DropUnheld();
  facts.plannable = IsPlannable(facts.type);
  facts.bytes = PlannedBytes(facts.type);
  return facts_.emplace(hash, std::make_shared<const ValueFacts>(std::move(facts)))->second;
}

/// What the table alone holds nobody else can get hold of meanwhile.
void FactTable::DropUnheld() {
  std::erase_if(facts_, [](const auto& entry) { return entry.second.use_count() == 1; });
  drop_at_ = std::max<size_t>(256, 2 * facts_.size());
}

}  // namespace infer
