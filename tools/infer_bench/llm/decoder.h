#pragma once
/// A text decoder with caches of keys and values, fed token by token or with a prompt. Inputs are
/// known by the names that exporters give them (transformers' optimum, ONNX Runtime's generation
/// package): input_ids, attention_mask, position_ids, seqlens_k, total_sequence_length, past...
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lib/support/random.h"
#include "runtime/api/program.h"

namespace infer::bench {

class Decoder {
 public:
  /// Unsupported: an input of no known role, or caches that cannot be carried from step to step.
  /// InvalidArgument: the model has another batch.
  /// Tokens are below `vocabulary`; 0: below the last extent of the first output.
  static Result<Decoder> Make(std::shared_ptr<const Program> program, int64_t batch,
                              int64_t vocabulary, uint64_t seed);

  /// Tokens that one run may take; 0: any number.
  int64_t step() const { return step_; }
  /// Tokens that the caches hold; 0: they grow by each run.
  int64_t capacity() const { return capacity_; }
  bool has_caches() const { return !caches_.empty(); }
  /// Of all caches of a sample with `tokens` tokens, or of fixed caches.
  int64_t cache_bytes(int64_t tokens) const;

  /// As if `depth` tokens had been read: the caches hold zeros.
  Status Begin(int64_t depth);
  /// One run over `tokens` more tokens of each sample, drawn evenly. Pre: Begin was called.
  Status Feed(int64_t tokens, const std::stop_token& stop = {});
  const RunContext& context() const { return *context_; }

 private:
  enum class Role : uint8_t { kIds, kMask, kPositions, kLast, kTotal, kCache };
  struct Cache {
    size_t input, output;
    DType dtype;
    Dims dims;  // of the batch; the length, before the last one, as the model fixes it, else 0
  };
  Decoder(std::shared_ptr<const Program> program, int64_t batch, uint64_t seed)
      : program_(std::move(program)), batch_(batch), random_(seed) {}
  Status ReadInputs();
  Status ReadCaches(const std::vector<size_t>& inputs);
  Result<Tensor> ValueFor(Role role, const Value& input, int64_t tokens);

  std::shared_ptr<const Program> program_;
  int64_t batch_;
  Random random_;
  std::unique_ptr<RunContext> context_;
  std::vector<std::optional<Role>> roles_;  // by input
  std::vector<Cache> caches_;
  int64_t step_ = 0, capacity_ = 0, vocabulary_ = 0;
  int64_t past_ = 0;  // tokens that have been read
};

}  // namespace infer::bench
