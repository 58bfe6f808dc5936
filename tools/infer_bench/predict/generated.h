#pragma once
/// Programs to fit a machine's profile from: random networks of layers as models have them, of
/// random extents. None is a known model, and none is taken from a file.
#include <span>

#include "lib/support/random.h"
#include "tools/zoo/spelling.h"

namespace infer::bench {

struct GeneratedProgram {
  std::string kind;  ///< "conv", "qdq-conv", "transformer", ...
  Graph graph;
};

/// The index-th of an endless series; the same in every run of one build.
Result<GeneratedProgram> MakeGenerated(uint64_t index, const OpRegistry& ops);

/// What the generators are written with.
class Maker {
 public:
  Maker(const ZooOptions& options, const OpRegistry& ops, Random& random)
      : net(options, ops, "generated"), random(random) {}

  int64_t Of(const Ints& choices) {
    return choices[random.Below(static_cast<uint32_t>(choices.size()))];
  }
  bool Maybe(double share) { return random.Uniform() < share; }
  /// Between the two, each octave as likely as another.
  int64_t Between(int64_t low, int64_t high);
  /// The same, at best a multiple of 8 or 4, as channels are.
  int64_t Channels(int64_t low, int64_t high);

  void Shuffle(std::span<int64_t> list);

  Value* FloatInput(const char* name, const Ints& dims);
  /// One of the activations of networks; 0 to 9, or any.
  Value* Activation(Value* x, int64_t which);

  Net net;
  Random& random;
};

void MakeConvNet(Maker& m, bool quantized);
/// Convolutions of 3 x 3 at stride 1: what Winograd's algorithm is for.
void MakePlainConvNet(Maker& m);
void MakeConvNet1d(Maker& m);
void MakeTransformer(Maker& m);
void MakeDecoder(Maker& m);
void MakeRecurrent(Maker& m);
void MakePerceptron(Maker& m);
void MakeSmallSteps(Maker& m);

}  // namespace infer::bench
