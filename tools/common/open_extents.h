#pragma once
/// Extents for the dimensions that a model leaves open: what the user says first (--set, --shape,
/// the extents of given inputs), then the first that fit. All commands choose them here.
#include <functional>
#include <map>
#include <string>

#include "lib/ir/graph.h"

namespace infer {

/// By name of an open dimension: its symbol ("batch"), or "x[1]" for a nameless one of input x.
using OpenExtents = std::map<std::string, int64_t>;

/// Pre: axis `axis` of the input is not static.
std::string OpenDimName(const Value& input, int axis);
bool HasOpenDims(const Graph& g);

struct ExtentSearch {
  /// What is tried first for the leading dimension of inputs with more axes. 1 is what a run or a
  /// measurement is asked for; a check takes 2, since one row hides what a softmax or a broadcast
  /// does wrong (but 1 where samples are large).
  int64_t first_batch = 1;
  /// Extents that are not up for choice.
  OpenExtents fixed = {};
  /// Runs the graph with these extents: whether some output is empty (then another choice is
  /// better, if there is one). Not given: what inference says decides.
  std::function<Result<bool>(const OpenExtents&)> run = {};
};

/// Small extents first, the leading dimension 1 or 2, the others above 1; height and width of
/// images (inputs of four axes with 1, 3 or 4 channels) 224, and 64 where `first_batch` asks for a
/// check. Runs the graph also where no dimension is open. A choice that is too large for the memory
/// gives way to smaller ones. InvalidArgument: nothing that was tried fits, with the last reason.
/// ResourceExhausted: all that was tried is too large.
Result<OpenExtents> FindExtents(const Graph& g, const ExtentSearch& search);

/// A copy with these extents, types inferred anew. InvalidModel when they do not fit.
Result<Graph> WithExtents(const Graph& g, const OpenExtents& extents);

/// Whether some output is an empty tensor.
bool AnyEmpty(const std::vector<Datum>& outputs);

/// "batch = 1, length = 4", or "".
std::string ToString(const OpenExtents& extents);

}  // namespace infer
