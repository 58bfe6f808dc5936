#pragma once
/// The loss of training: the distance of a model's outputs from the golden model's on the same
/// inputs, and from labels where there are some.
#include <vector>

#include "lib/ir/editor.h"

namespace infer {

/// One f32 output of the model and how it is compared.
struct OutputLoss {
  size_t output = 0;  ///< of the graph
  enum class Kind : uint8_t {
    /// [..., classes]: of each row the Kullback-Leibler divergence of the softmax of both at a
    /// temperature (Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network",
    /// arXiv:1503.02531).
    kScores,
    kProbabilities,  ///< the same, of the logarithms
    kNumbers,        ///< the squared error relative to the golden model's energy
  } kind = Kind::kNumbers;
  double energy = 1;  ///< kNumbers: mean square of the golden output
  double weight = 1;  ///< kNumbers: beside the others
};

struct LossOptions {
  std::vector<OutputLoss> outputs;  ///< at least one; their losses are added
  double temperature = 2;           ///< above 0
  /// Weight of the cross-entropy of labels, by the first output with scores; 0: no labels.
  double label_weight = 0;
};

/// Adds to `g`, whose outputs are static: inputs "golden_<k>" like outputs[k], where labels count
/// an input "labels" like that output (1 at the label; a row of zeros: no label), and an output of
/// one number, the loss, last. 0 where all outputs are golden's and no labels count.
Status AddLoss(Graph& g, const LossOptions& options);

}  // namespace infer
