#pragma once
/// oneDNN's parallel regions on our lanes. Debian builds oneDNN for OpenMP, whose runtime would
/// keep a second set of threads beside ours; of that runtime it calls six functions, which
/// openmp.cc defines.

namespace infer::onednn {

/// Whether oneDNN calls them here. It does in a program that we are linked into. In a shared
/// library that is loaded into a program with an OpenMP runtime of its own, oneDNN keeps to that
/// one.
bool RunsOnLanes();

/// Where RunsOnLanes(): nothing, oneDNN asks for the thread's lanes by itself. Else as
/// omp_set_num_threads. Returns how many it used before.
int UseThreads(int threads);

/// While it lives, oneDNN takes at most so many threads, the calling one among them; 0: as many as
/// without it.
class ThreadLimit {
 public:
  explicit ThreadLimit(int limit) : limit_(limit) {
    if (limit_ > 0) Begin();
  }
  ~ThreadLimit() {
    if (limit_ > 0) End();
  }
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  void Begin();
  void End();

  int limit_;
  int before_ = 0;
  int threads_ = 0;  // of the OpenMP runtime
};

}  // namespace infer::onednn
