#pragma once
/// The parts of CheckTarget. Internal to quant/target.
#include <functional>

#include "lib/support/strings.h"
#include "quant/target/check.h"

namespace infer::target {

/// Calls `visit` with every node, also of bodies.
void ForEachNode(const Graph& g, const std::function<void(const Node&)>& visit);

inline void Add(TargetReport& r, const Node& n, Severity s, std::string what, std::string remedy) {
  r.findings.push_back({Describe(n), s, std::move(what), std::move(remedy)});
}

/// `name` is one of the words of `list`, which begins and ends with a space.
bool Lists(std::string_view list, std::string_view name);

bool Is8Bit(DType t);
/// DequantizeLinear of 8 or 16 bits with constant parameters; nullptr where `v` is none.
const Node* DequantizedBy(const Value* v);
/// A product whose activations (input 0) or weights (input 1) come out of DequantizeLinear.
bool IsProduct(const Node& n);

/// Operators, types and attributes that ONNX Runtime's CPU provider has no kernel for.
void CheckOrtKernels(const Graph& g, const FileVersions& file, const Target& t, TargetReport& r);
/// An operator that ONNX Runtime moves QuantizeLinear before and DequantizeLinear behind, so that
/// it runs on codes (QDQPropagationTransformer). A MaxPool of codes is another kernel than of
/// numbers.
bool PassesCodes(const Node& n);
/// The QuantizeLinear that alone reads `v`, also behind a bound that its codes repeat and that ONNX
/// Runtime takes out, and behind operators that pass codes; nullptr: none.
const Node* QuantizedBy(const Value* v);
/// As DequantizedBy, also before operators that pass codes.
const Node* DequantizedBeforeItMoves(const Value* v);
/// By node the integer kernel that it becomes there; kMovesCodes: it runs on the codes as they are.
using OrtForms = std::map<const Node*, std::string>;
inline constexpr std::string_view kMovesCodes = "codes";
/// Which nodes between DequantizeLinear and QuantizeLinear it computes in integers; `forms`, where
/// given, receives those.
void CheckOrtForms(const Graph& g, const FileVersions& file, const Target& t, TargetReport& r,
                   OrtForms* forms = nullptr);
void CheckOpenVino(const Graph& g, TargetReport& r);
/// Compiles the graph and looks at the steps.
Status CheckOurs(const Graph& g, const Backend& backend, TargetReport& r);

}  // namespace infer::target
