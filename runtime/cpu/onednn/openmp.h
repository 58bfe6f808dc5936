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

/// While it lives, oneDNN runs on the calling thread alone.
class OneThread {
 public:
  explicit OneThread(bool wanted) : changes_(wanted) {
    if (changes_) Begin();
  }
  ~OneThread() {
    if (changes_) End();
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  void Begin();
  void End();

  bool changes_;
  bool before_ = false;
  int threads_ = 0;  // of the OpenMP runtime
};

}  // namespace infer::onednn
