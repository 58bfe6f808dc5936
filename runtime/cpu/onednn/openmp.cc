/// The functions of libgomp that Debian's oneDNN calls, over the lanes of the calling thread. Names
/// and types are those of the GNU Offloading and Multi-Processing Library's ABI (GCC 12,
/// libgomp/libgomp_g.h) and of OpenMP 5.0, section 3.2. The dynamic linker finds the definitions of
/// the program before those of libgomp. Calls that come from elsewhere go on to libgomp.
#include "runtime/cpu/onednn/openmp.h"

#include <dlfcn.h>
#include <link.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <string_view>
#include <utility>

#include "lib/support/lane_pool.h"
#include "lib/support/parallel.h"
#include "lib/support/spin.h"

namespace infer::onednn {

extern "C" {
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
void GOMP_barrier();
int omp_get_max_threads();
int omp_get_num_threads();
int omp_get_thread_num();
int omp_in_parallel();
void omp_set_num_threads(int threads);  // libgomp's
}

namespace {

/// Where the code of one library lies.
struct CodeRange {
  uintptr_t begin = 0, size = 0;
  bool Has(uintptr_t address) const { return address - begin < size; }
};

CodeRange RangeOfOneDnn() {
  struct Search {
    uintptr_t inside;
    CodeRange found;
  } search{reinterpret_cast<uintptr_t>(dlsym(RTLD_DEFAULT, "dnnl_primitive_execute")), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& s = *static_cast<Search*>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          const CodeRange range{info->dlpi_addr + header.p_vaddr, header.p_memsz};
          if (header.p_type == PT_LOAD && range.Has(s.inside)) s.found = range;
        }
        return 0;
      },
      &search);
  return search.found;
}

bool IsOneDnn(const void* caller) {
  static const CodeRange range = RangeOfOneDnn();
  return range.Has(reinterpret_cast<uintptr_t>(caller));
}

// NOLINTBEGIN(performance-no-int-to-ptr): the dynamic linker tells addresses as numbers.
/// The address in the slot of function `name` of a library that was loaded at `base`.
void* TargetOf(std::string_view name, uintptr_t base, const ElfW(Dyn) * dynamic) {
  const ElfW(Rela)* relocations = nullptr;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  size_t bytes = 0;
  for (const auto* d = dynamic; d->d_tag != DT_NULL; ++d) {
    if (d->d_tag == DT_JMPREL) relocations = reinterpret_cast<const ElfW(Rela)*>(d->d_un.d_ptr);
    if (d->d_tag == DT_PLTRELSZ) bytes = d->d_un.d_val;
    if (d->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(d->d_un.d_ptr);
    if (d->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(d->d_un.d_ptr);
  }
  if (!relocations || !symbols || !names) return nullptr;
  for (const auto& r : std::span(relocations, bytes / sizeof(*relocations)))
    if (names + symbols[ELF64_R_SYM(r.r_info)].st_name == name)
      return *reinterpret_cast<void**>(base + r.r_offset);
  return nullptr;
}

/// The address that oneDNN's calls of function `name` go to; null where that is not known, as in a
/// program that oneDNN is a part of. From the relocations of its library (System V ABI, "Dynamic
/// Section"), since dlsym tells what a caller in our place would find: another module may have
/// loaded the library before us, and has bound it then.
void* CalledByOneDnn(std::string_view name) {
  struct Search {
    std::string_view name;
    void* target;
  } search{name, nullptr};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& s = *static_cast<Search*>(data);
        bool is_onednn = false;
        const ElfW(Dyn)* dynamic = nullptr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
          if (header.p_type == PT_LOAD)
            is_onednn = is_onednn || IsOneDnn(reinterpret_cast<void*>(begin));
          if (header.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
        }
        if (is_onednn && dynamic) s.target = TargetOf(s.name, info->dlpi_addr, dynamic);
        return is_onednn ? 1 : 0;
      },
      &search);
  return search.target;
}
// NOLINTEND(performance-no-int-to-ptr)

/// Whether two addresses lie in one library or program.
bool AreTogether(const void* a, const void* b) {
  Dl_info of_a, of_b;
  return dladdr(a, &of_a) != 0 && dladdr(b, &of_b) != 0 && of_a.dli_fbase == of_b.dli_fbase;
}

/// Libgomp's own.
template <typename F>
F* Next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

/// Of the parts of one region, each of which has a thread of its own as long as any waits here.
class Barrier {
 public:
  explicit Barrier(int count) : count_(count) {}
  void Wait() {
    const int round = round_;
    if (arrived_.fetch_add(1) + 1 == count_) {
      arrived_ = 0;
      ++round_;
      round_.notify_all();
      return;
    }
    for (Spin spin(SpinTime::kLeastNs); round_ == round;)
      if (!spin.Again()) round_.wait(round);
  }

 private:
  const int count_;
  std::atomic<int> arrived_{0}, round_{0};
};

/// The part of a region that a thread is in.
struct Part {
  int index = 0, count = 1;
  Barrier* barrier = nullptr;
  bool nested = false;  // regions in it have one thread
};
thread_local Part t_part;
thread_local int t_limit = 0;

int MaxThreads() {
  const int lanes = CurrentLanes();
  return t_limit > 0 ? std::min(t_limit, lanes) : lanes;
}
/// A region in a region, or in a loop of ours, has one thread.
bool IsNested() { return t_part.nested || IsInLoop(); }

void RunRegion(void (*body)(void*), void* data, int count) {
  if (count == 1) {
    const Part before = std::exchange(t_part, {.nested = IsNested()});
    body(data);
    t_part = before;
    return;
  }
  Team& team = Team::OfThisThread();
  const int had = team.size();
  // A primitive may have been cut for more lanes than the run got. All parts must run, and may wait
  // for each other.
  team.GrowTo(count);
  Barrier barrier(count);
  team.Run(
      count,
      [&](int i) {
        const Part before = std::exchange(t_part, {i, count, &barrier, true});
        body(data);
        t_part = before;
      },
      UsefulLanes(count));
  team.ShrinkTo(std::max(had, CurrentLanes()));
}

/// A runtime that had a team before a fork waits for it for ever after it.
void KeepToOneThreadInChildren() {
  pthread_atfork(nullptr, nullptr, [] { omp_set_num_threads(1); });
}

}  // namespace

bool RunsOnLanes() {
  static const bool ours = [] {
    void* target = CalledByOneDnn("GOMP_parallel");
    if (!target) target = dlsym(RTLD_DEFAULT, "GOMP_parallel");
    const bool found = RangeOfOneDnn().size > 0 &&
                       AreTogether(target, reinterpret_cast<const void*>(&RangeOfOneDnn));
    if (!found) KeepToOneThreadInChildren();
    return found;
  }();
  return ours;
}

int UseThreads(int threads) {
  if (RunsOnLanes()) return threads;
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  return before;
}

void ThreadLimit::Begin() {
  before_ = std::exchange(t_limit, limit_);
  threads_ = UseThreads(limit_);
}

void ThreadLimit::End() {
  t_limit = before_;
  UseThreads(threads_);
}

extern "C" {

void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags) {
  if (!IsOneDnn(__builtin_return_address(0))) {
    static auto* const next =
        Next<void(void (*)(void*), void*, unsigned, unsigned)>("GOMP_parallel");
    return next(body, data, threads, flags);
  }
  const int count = threads > 0 ? static_cast<int>(threads) : MaxThreads();
  RunRegion(body, data, IsNested() ? 1 : count);
}

void GOMP_barrier() {
  if (IsOneDnn(__builtin_return_address(0))) {
    if (t_part.barrier) t_part.barrier->Wait();
    return;
  }
  static auto* const next = Next<void()>("GOMP_barrier");
  next();
}

int omp_get_max_threads() {
  if (IsOneDnn(__builtin_return_address(0))) return MaxThreads();
  static auto* const next = Next<int()>("omp_get_max_threads");
  return next();
}

int omp_get_num_threads() {
  if (IsOneDnn(__builtin_return_address(0))) return t_part.count;
  static auto* const next = Next<int()>("omp_get_num_threads");
  return next();
}

int omp_get_thread_num() {
  if (IsOneDnn(__builtin_return_address(0))) return t_part.index;
  static auto* const next = Next<int()>("omp_get_thread_num");
  return next();
}

int omp_in_parallel() {
  if (IsOneDnn(__builtin_return_address(0))) return IsNested();
  static auto* const next = Next<int()>("omp_in_parallel");
  return next();
}

}  // extern "C"

}  // namespace infer::onednn
