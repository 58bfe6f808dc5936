#pragma once
/// Perplexity of language models: how well the scores at each token foretell the next one of the
/// same input.
///
/// exp(mean of -ln p(token t+1 | tokens up to t)), over all tokens but the first of each sequence
/// (Jelinek et al. 1977, J. Acoust. Soc. Am. 62:S63). It means something for causal models only,
/// whose scores at a token know nothing of later ones; IsCausal tells by running the model.
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/ir/graph.h"
#include "quant/calibrate/samples.h"
#include "quant/scheme/quant_params.h"

namespace infer {

/// Where a graph has tokens and their scores.
struct NextToken {
  size_t input = 0;            ///< tokens, integers [N, L]
  size_t output = 0;           ///< scores or probabilities, floats [N, L, V]
  std::optional<size_t> mask;  ///< integers [N, L], where an input's name says so; 0: no token
};
/// By types and nodes: an input of integers is looked up in a table of V rows (of several the
/// widest), and an output has rows of V floats. nullopt: none is.
std::optional<NextToken> NextTokenOf(const Graph& g);

/// The same sample with another last token in each sequence; nullopt where sequences have fewer
/// than two tokens, or the last ones are masked.
std::optional<std::vector<Datum>> WithOtherLastTokens(const NextToken& task,
                                                      const std::vector<Datum>& inputs);
/// Whether the scores of a sample and those of the same with other last tokens agree at all tokens
/// before, and not at the last.
bool DifferAtLastTokenOnly(const Tensor& scores, const Tensor& changed);

/// Mean of x per token, where sequences were drawn and their tokens belong together.
class MeanPerToken {
 public:
  /// Adds one sequence: the sum of x over its tokens.
  void Add(double sum, int64_t tokens);
  int64_t tokens() const { return tokens_; }
  int64_t sequences() const { return sequences_; }
  double mean() const;  ///< 0 without tokens
  /// 95 % interval: a ratio estimate (Cochran 1977, Sampling Techniques, 6.4) with Student's t.
  /// Empty below two sequences.
  std::optional<Interval> interval() const;

 private:
  int64_t tokens_ = 0, sequences_ = 0;
  double sum_ = 0;
  double xx_ = 0, xn_ = 0, nn_ = 0;  // over sequences: sums of x^2, x n, n^2
};

/// Perplexity of two models on the same tokens.
class PairedPerplexity {
 public:
  /// Adds one sample, whose inputs are `inputs`. Masked tokens, and those behind one, do not count.
  /// InvalidModel: scores that are not [N, L, V] floats for the tokens, or tokens outside V.
  Status Add(const NextToken& task, const std::vector<Datum>& inputs, const Tensor& golden,
             const Tensor& candidate);

  int64_t tokens() const { return difference_.tokens(); }
  int64_t sequences() const { return difference_.sequences(); }
  double golden() const;
  double candidate() const;
  std::optional<Interval> candidate_interval() const;
  double rise() const;  ///< candidate() / golden() - 1
  std::optional<Interval> rise_interval() const;

 private:
  MeanPerToken golden_, candidate_, difference_;  // of -ln p
};

}  // namespace infer
