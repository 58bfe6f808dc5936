#pragma once
/// The thread count of the OpenMP runtime that oneDNN was linked with (OpenMP 5.0, 3.2.1 and
/// 3.2.3). Declared here, because clang without libomp's headers builds this project too.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int);
}
