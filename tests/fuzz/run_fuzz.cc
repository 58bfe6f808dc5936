/// A model with the values of its inputs (model_case.h): imported, fused, and run on every backend.
/// Whatever comes, all refuse it alike or give the same numbers. Mutants are made of the graph, not
/// of bytes.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "lib/ops/registry.h"
#include "lib/support/memory_limit.h"
#include "lib/support/parallel.h"
#include "tests/differential/model_case.h"
#include "tests/differential/model_mutator.h"

namespace {

const infer::OpRegistry& Ops() {
  static const infer::OpRegistry ops = infer::AllOps();
  return ops;
}

constexpr int64_t kMostTensorBytes = 60 << 20;  ///< below max_allocation_size_mb

/// The bytes of `model` in `data`, or 0 where they do not fit.
size_t Store(const onnx::ModelProto& model, uint8_t* data, size_t most) {
  const std::string bytes = model.SerializePartialAsString();
  if (bytes.size() > most) return 0;
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}

}  // namespace

extern "C" const char* __asan_default_options() {
  // Allocations of hostile sizes fail as they do under a limit.
  return "allocator_may_return_null=1:max_allocation_size_mb=64:detect_leaks=1";
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace infer;
  onnx::ModelProto model;
  if (!model.ParseFromArray(data, static_cast<int>(size))) return -1;
  SetLaneBudget(2);
  // A tensor that is too large is refused here: operator new of the sanitizer ends the process.
  SetMemoryLimit(ChargedMemory() + kMostTensorBytes);
  const Verdict v = JudgeCase(std::move(model), Ops());
  if (v.kind == Verdict::kDiffer) {
    std::fprintf(stderr, "%s\n", v.what.c_str());
    std::abort();
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  using namespace infer;
  onnx::ModelProto model;
  if (!model.ParseFromArray(data, static_cast<int>(size))) return size;
  Random random(seed);
  ModelMutator mutator(model, random, Ops());
  for (uint32_t n = 1 + random.Below(4); n > 0;) n -= mutator.Change();
  const size_t stored = Store(model, data, most);
  return stored ? stored : size;
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data1, size_t size1,
                                            const uint8_t* data2, size_t size2, uint8_t* out,
                                            size_t most, unsigned seed) {
  using namespace infer;
  onnx::ModelProto model, other;
  if (!model.ParseFromArray(data1, static_cast<int>(size1)) ||
      !other.ParseFromArray(data2, static_cast<int>(size2)))
    return 0;
  Random random(seed);
  ModelMutator(model, random, Ops()).Append(std::move(other));
  return Store(model, out, most);
}
