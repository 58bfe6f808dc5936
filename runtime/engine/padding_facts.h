#pragma once
/// Facts about nodes that the proof of padding (padding.cc) asks for, most of them by running the
/// reference kernel on a few numbers.
#include <optional>

#include "lib/ir/graph.h"

namespace infer::engine {

/// The axis that the node, a Softmax or the like, runs along; -1: it is none.
int SoftmaxAxis(const Node& node);
/// Pre: SoftmaxAxis(node) >= 0. Elements that lie 10,000 below another become 0: shares of a sum,
/// not their logarithms.
bool MakesZeroOfHidden(const Node& node);
/// The node sums along `axis` of input 0, so that further zeros there change nothing. A mean is no
/// such sum.
bool SumSkipsZeros(const Node& node, int axis);
/// Elements of the result are those of input 0, moved or repeated.
bool MovesElements(const Node& node);
/// `images`, one operand's elements for the 0 and the 1 of a mask, through an element-wise node
/// whose other operands are single constants; nullopt: they are not.
std::optional<Tensor> ImagesOf(const Node& node, size_t operand, const Tensor& images);
/// Operand `operand`, of these images, puts the elements of another one out of Softmax's sight
/// where the mask is 0, and leaves them where it is 1: by a sum or by a choice.
bool HidesScores(const Node& node, size_t operand, const Tensor& images);

}  // namespace infer::engine
