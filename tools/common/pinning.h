#pragma once
/// Which processors threads run on.
#include <vector>

#include "lib/support/status.h"

namespace infer {

/// The first n processors of this process, one of each physical core before the second of any.
/// InvalidArgument: there are fewer.
Result<std::vector<int>> FirstCpus(int n);

/// Keeps each of `threads` lanes (0: the usable physical cores) on a processor of its own. Lanes
/// lie where OMP_PLACES and OMP_PROC_BIND say (lib/support/places.h), which libgomp reads once,
/// while it is loaded: so this sets them and starts the program again with the same arguments.
/// Where either is set already, by us or by the caller, it does nothing.
Status PinLanes(char** argv, int threads);

}  // namespace infer
