#pragma once
/// A model and the values of its inputs in one ONNX file: a graph input that has an initializer of
/// its name is run on that value. What the fuzzer of runs eats, and its mutator changes.
#include <onnx/onnx_pb.h>

#include <span>
#include <string>

#include "lib/ir/graph.h"
#include "tests/differential/judge.h"

namespace infer {

/// The file of a graph and its inputs. Unsupported where ONNX cannot hold it.
Result<onnx::ModelProto> CaseOf(const Graph& g, std::span<const Datum> inputs);

/// Imports the model, runs it on its values (random ones where it has none) and compares all ways
/// to run it. What is refused by import, or too large to be run in a blink, agrees.
Verdict JudgeCase(onnx::ModelProto model, const OpRegistry& ops);

}  // namespace infer
