/// A library for LD_PRELOAD that lets one call fail. From main() to its end it counts the calls of
/// one kind, in all threads:
///   FAIL_CALL   malloc (with calloc, realloc, memalign), mmap, read or write (with pread, pwrite)
///   FAIL_AT     the number of the one that fails; 0: none
///   FAIL_ERRNO  its errno; default ENOMEM
///   FAIL_REPORT a file that gets "COUNT\n", behind a line "LIBRARY ..." for the failed call: the
///   files on its stack
/// It allocates nothing itself. malloc is failed below the tools' own (tools/bench/allocations.cc):
/// at glibc's names.
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

std::atomic<bool> g_armed{false};
std::atomic<long> g_calls{0};
long g_at = 0;
int g_errno = ENOMEM;
std::string_view g_call;
const char* g_report = nullptr;

void Report(const char* text, size_t size, int flags) {
  if (!g_report) return;
  const int fd = open(g_report, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
  if (fd < 0) return;
  (void)!syscall(SYS_write, fd, text, size);
  close(fd);
}

/// The files of the call's stack, innermost first.
void ReportStack() {
  void* frames[64];
  char text[4096] = "LIBRARY";
  size_t used = 7;
  std::string_view last;
  for (int i = 0, n = backtrace(frames, 64); i < n; ++i) {
    Dl_info info;
    if (!dladdr(frames[i], &info) || !info.dli_fname || last == info.dli_fname) continue;
    last = info.dli_fname;
    const std::string_view name = last.substr(last.rfind('/') + 1);
    if (used + name.size() + 2 > sizeof text) break;
    text[used++] = ' ';
    std::memcpy(text + used, name.data(), name.size());
    used += name.size();
  }
  text[used++] = '\n';
  Report(text, used, O_TRUNC);
}

/// Whether this call is the one.
bool Fails(std::string_view call) {
  if (!g_armed.load(std::memory_order_relaxed) || call != g_call) return false;
  if (g_calls.fetch_add(1) + 1 != g_at) return false;
  g_armed = false;  // what reports it is not counted
  ReportStack();
  g_armed = true;
  errno = g_errno;
  return true;
}

template <typename F>
F Next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

int (*g_main)(int, char**, char**);

int CountingMain(int argc, char** argv, char** envp) {
  const char* call = std::getenv("FAIL_CALL");
  const char* at = std::getenv("FAIL_AT");
  const char* error = std::getenv("FAIL_ERRNO");
  g_call = call ? call : "";
  g_at = at ? std::atol(at) : 0;
  if (error) g_errno = std::atoi(error);
  g_report = std::getenv("FAIL_REPORT");
  unsetenv("LD_PRELOAD");  // children do not count
  void* frame;
  backtrace(&frame, 1);  // loads what it needs
  g_armed = true;
  const int code = g_main(argc, argv, envp);
  g_armed = false;
  char text[32];
  Report(text, static_cast<size_t>(std::snprintf(text, sizeof text, "%ld\n", g_calls.load())),
         O_APPEND);
  return code;
}

}  // namespace

extern "C" {

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(),
                      void (*fini)(), void (*rtld_fini)(), void* stack_end) {
  g_main = main;
  const auto real = Next<decltype(&__libc_start_main)>("__libc_start_main");
  return real(CountingMain, argc, argv, init, fini, rtld_fini, stack_end);
}

void* __libc_malloc(size_t size) {
  static const auto real = Next<void* (*)(size_t)>("__libc_malloc");
  return Fails("malloc") ? nullptr : real(size);
}
void* __libc_calloc(size_t n, size_t size) {
  static const auto real = Next<void* (*)(size_t, size_t)>("__libc_calloc");
  return Fails("malloc") ? nullptr : real(n, size);
}
void* __libc_realloc(void* p, size_t size) {
  static const auto real = Next<void* (*)(void*, size_t)>("__libc_realloc");
  return Fails("malloc") ? nullptr : real(p, size);
}
void* __libc_memalign(size_t to, size_t size) {
  static const auto real = Next<void* (*)(size_t, size_t)>("__libc_memalign");
  return Fails("malloc") ? nullptr : real(to, size);
}

void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  if (Fails("mmap")) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, size, protection, flags, fd, offset));
}

ssize_t read(int fd, void* data, size_t size) {
  return Fails("read") ? -1 : syscall(SYS_read, fd, data, size);
}
ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  return Fails("read") ? -1 : syscall(SYS_pread64, fd, data, size, offset);
}
ssize_t write(int fd, const void* data, size_t size) {
  return Fails("write") ? -1 : syscall(SYS_write, fd, data, size);
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return Fails("write") ? -1 : syscall(SYS_pwrite64, fd, data, size, offset);
}

}  // extern "C"
