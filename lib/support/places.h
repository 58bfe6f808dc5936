#pragma once
/// The places that OMP_PLACES and OMP_PROC_BIND name, as the OpenMP runtime of the process reads
/// them. Without such a runtime, or without binding, there are none.

namespace infer {

/// How many places lanes are bound to; 0: they are not bound.
int Places();
/// Binds the calling thread to the place of lane `lane` (0 is the thread that the process began
/// with); lanes go round the places. Nothing where there are none.
void BindToPlace(int lane);

}  // namespace infer
