/// The memory of a version, and what its runs are known to take.
#include "runtime/engine/version.h"

namespace infer::engine {

void Version::Grew(const RunContext& context, const MemoryInfo& took) {
  weight_bytes_ = std::max(weight_bytes_, took.weight_bytes);
  ContextBytes& of_context = context_bytes_[&context];
  of_context.held = std::max(of_context.held, took.activation_bytes());
  of_context.expected = 0;
}

void Version::Expect(const RunContext& context, int64_t bytes) {
  context_bytes_[&context].expected = bytes;
}

int64_t Version::bytes() const {
  int64_t all = weight_bytes_;
  for (const auto& [context, bytes] : context_bytes_) all += bytes.most();
  return all;
}

int64_t Version::HeldByNext() const {
  const auto found = context_bytes_.find(idle[NextIdle()].get());
  return found == context_bytes_.end() ? 0 : found->second.held;
}

const BatchMemory& Version::MemoryOf(const ShapeKey& shape) const {
  static const BatchMemory unknown;
  const auto found = memory_.find(shape);
  return found == memory_.end() ? unknown : found->second;
}

/// nullptr: a request without rows, which shares its runs with nobody.
BatchMemory* Version::Memory(const ShapeKey& shape) {
  constexpr size_t kMostShapes = 64;
  if (!batches() || (!shape.empty() && shape.back() < 0)) return nullptr;
  if (memory_.size() >= kMostShapes && !memory_.contains(shape)) memory_.erase(memory_.begin());
  return &memory_[shape];
}

void Version::RanWithin(const ShapeKey& shape, int64_t rows, int64_t bytes) {
  if (BatchMemory* of_shape = Memory(shape)) of_shape->Ran(rows, bytes);
}

void Version::RefusedMemory(const ShapeKey& shape, int64_t rows) {
  refused_memory_ = true;
  if (BatchMemory* of_shape = Memory(shape)) of_shape->Refused(rows);
}

}  // namespace infer::engine
