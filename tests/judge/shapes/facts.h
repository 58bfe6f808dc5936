#pragma once
/// What two inferences say about the values of one model, side by side.
#include <onnx/onnx_pb.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/ir/graph.h"

namespace infer::judge {

/// Ours against theirs. Ordered: of several facts the worst counts.
enum class Verdict { kSame, kMore, kLess, kOther };
const char* Name(Verdict v);

/// By value name, of the graph and all its subgraphs. A name that stands twice is left out.
std::map<std::string, const Value*> ValuesOf(const Graph& g);
/// What the file declares after their inference: outputs and value_info, subgraphs too.
std::map<std::string, onnx::TypeProto> TypesOf(const onnx::GraphProto& g);

/// kMore: ours says more and contradicts nothing. A symbol of theirs that is not one of `symbols`
/// says nothing.
Verdict Compare(const ValueType& ours, const onnx::TypeProto& theirs,
                const std::set<std::string>& symbols);
/// The elements that both propagate; `theirs` lists them as if they were extents.
Verdict Compare(const std::optional<std::vector<Dim>>& ours, const onnx::TensorShapeProto& theirs,
                const std::set<std::string>& symbols);
std::string ToString(const onnx::TypeProto& type);
std::string ToString(const onnx::TensorShapeProto& shape);

/// Whether a tensor of these extents (one element of it, where `theirs` is a sequence) is none that
/// `theirs` describes.
bool Contradicts(const onnx::TypeProto& theirs, const Dims& made,
                 const std::map<std::string, int64_t>& symbols);
/// The value of an extent where its symbols have the values `at`; nullopt when one has none.
std::optional<int64_t> EvaluateDim(const Dim& d, const std::map<std::string, int64_t>& at);

}  // namespace infer::judge
