#include "lib/support/places.h"

#include <sched.h>

#include <cstddef>
#include <vector>

// OpenMP 5.0, 3.2.23 to 3.2.28. There is a runtime wherever oneDNN is; programs without it have
// neither of these.
extern "C" {
__attribute__((weak)) int omp_get_proc_bind();
__attribute__((weak)) int omp_get_num_places();
__attribute__((weak)) int omp_get_place_num_procs(int place);
__attribute__((weak)) void omp_get_place_proc_ids(int place, int* ids);
}

namespace infer {

int Places() {
  if (!omp_get_proc_bind || !omp_get_num_places) return 0;
  return omp_get_proc_bind() == 0 ? 0 : omp_get_num_places();
}

void BindToPlace(int lane) {
  const int places = Places();
  if (places == 0 || !omp_get_place_num_procs || !omp_get_place_proc_ids) return;
  const int place = lane % places;
  std::vector<int> cpus(static_cast<size_t>(omp_get_place_num_procs(place)));
  omp_get_place_proc_ids(place, cpus.data());
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (int cpu : cpus)
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &mask);
  static_cast<void>(sched_setaffinity(0, sizeof mask, &mask));  // else it stays where it may be
}

}  // namespace infer
