#pragma once
/// Extents that are equal in every run, also where nobody knows them.
#include "lib/ir/graph.h"

namespace infer {

/// Whether axis `i` of `a` has as many indices as axis `j` of `b` (negative: from the end), because
/// their types say so, or because both are made alike: by the same operators from values whose
/// extents are the same. Exporters give such axes two names, or none.
bool SameExtent(const Value& a, int i, const Value& b, int j);

/// Whether axis `i` of `a` is 1 or as long as axis `j` of `b` in every run, so that broadcasting
/// them together repeats nothing of `b`.
bool FitsExtent(const Value& a, int i, const Value& b, int j);

}  // namespace infer
