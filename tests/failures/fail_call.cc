/// A library for LD_PRELOAD that lets one call fail. From main() to its end it counts the calls of
/// one kind, in all threads:
///   FAIL_CALL   malloc (with calloc, realloc, memalign), mmap, read or write (with pread, pwrite)
///   FAIL_AT     the number of the one that fails; 0: none
///   FAIL_ERRNO  its errno; default ENOMEM
///   FAIL_REPORT a file that gets "COUNT\n", behind a line "LIBRARY ..." for the failed call: the
///   files on its stack
///
/// With FAIL_STEP instead of FAIL_AT one run serves many points: the calls 1, 1 + step, 1 + 2 step
/// ... fail, each in a child that is forked there and goes on to its end, while the run itself goes
/// on without a failure.
///
///   FAIL_SAID   a file that gets the standard error of each child
///   FAIL_PIPES  "IN,OUT": OUT gets a line "NUMBER STATUS\n" for each of these calls; then a byte
///   of IN is awaited. STATUS is waitpid's, or -1 where no child could be forked: threads, open
///   files or written files would be shared with it, or OpenSSL calls
///
/// It allocates nothing itself. malloc is failed below the tools' own (tools/bench/allocations.cc):
/// at glibc's names.
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

/// "LIBRARY", the files of the call's stack, innermost first, and an end of line.
struct StackText {
  char text[4096] = "LIBRARY";
  size_t size = 7;
  StackText() {
    void* frames[64];
    std::string_view last;
    for (int i = 0, n = backtrace(frames, 64); i < n; ++i) {
      Dl_info info;
      if (!dladdr(frames[i], &info) || !info.dli_fname || last == info.dli_fname) continue;
      last = info.dli_fname;
      const std::string_view name = last.substr(last.rfind('/') + 1);
      if (size + name.size() + 2 > sizeof text) break;
      text[size++] = ' ';
      std::memcpy(text + size, name.data(), name.size());
      size += name.size();
    }
    text[size++] = '\n';
  }
  bool Has(std::string_view name) const {
    return std::string_view(text, size).find(name) != std::string_view::npos;
  }
};

constexpr unsigned kChildSeconds = 30;
constexpr int kMostFiles = 64;
long g_step = 0;
const char* g_said = "/dev/null";
int g_in = -1, g_out = -1;
/// The first thread of a tool waits for signals (tools/common/signals.cc) and takes no memory. A
/// child does without it, so that nobody may wait for its end there.
std::atomic<pthread_t> g_first_thread{0};
bool g_is_child = false;

/// State that a child would share with its parent, or lack.
struct Shared {
  nlink_t threads;
  unsigned long files;  ///< open ones, a bit each, but for files that are only read
  long here, above;     ///< entries of the working folder and of the one above
};
Shared g_begin;

/// The number of entries of a small folder; opendir would take memory.
long Entries(const char* folder) {
  const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  alignas(8) char data[4096];
  const long size = fd < 0 ? -1 : syscall(SYS_getdents64, fd, data, sizeof data);
  close(fd);
  long n = 0;
  for (long at = 0; at < size; ++n) {
    unsigned short length;
    std::memcpy(&length, data + at + 16, sizeof length);  // d_reclen
    at += length;
  }
  return n;
}

/// Whether it is a file that is open only to be read.
bool IsRead(int fd) {
  struct stat facts;
  return fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) &&
         (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
}

/// Positions in files that are read: a child moves those of its parent, too.
struct Places {
  off_t at[kMostFiles];
  Places() {
    for (int fd = 0; fd < kMostFiles; ++fd) at[fd] = IsRead(fd) ? lseek(fd, 0, SEEK_CUR) : -1;
  }
  void Restore() const {
    for (int fd = 0; fd < kMostFiles; ++fd)
      if (at[fd] >= 0) lseek(fd, at[fd], SEEK_SET);
  }
};

Shared SharedNow() {
  Shared now;
  std::memset(&now, 0, sizeof now);
  struct stat facts;
  if (stat("/proc/self/task", &facts) == 0) now.threads = facts.st_nlink;
  for (int fd = 0; fd < kMostFiles; ++fd)
    if (fcntl(fd, F_GETFD) != -1 && !IsRead(fd)) now.files |= 1UL << fd;
  now.here = Entries(".");
  now.above = Entries("..");
  return now;
}

/// In the child: output goes elsewhere, and a run without end is ended.
void BecomeChild() {
  g_is_child = true;
  alarm(kChildSeconds);
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const int said = open(g_said, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  dup2(null, STDOUT_FILENO);
  dup2(said, STDERR_FILENO);
  close(null);
  close(said);
}

/// Forks a child in which call `n` fails, and waits for it. True in the child.
bool FailsInChild(long n) {
  int status = -1;
  const Shared now = SharedNow();
  // OpenSSL takes a lock again in the error path of a failed allocation. glibc refuses that by the
  // owner's thread number, which is another one in a child: it would wait for itself.
  if (std::memcmp(&now, &g_begin, sizeof now) == 0 && !StackText().Has("libcrypto")) {
    const Places places;
    const pid_t child = _Fork();
    if (child == 0) {
      BecomeChild();
      return true;
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    places.Restore();
  }
  char text[64];
  const int size = std::snprintf(text, sizeof text, "%ld %d\n", n, status);
  (void)!syscall(SYS_write, g_out, text, static_cast<size_t>(size));
  char answer;
  while (syscall(SYS_read, g_in, &answer, 1) < 0 && errno == EINTR) {
  }
  return false;
}

/// Whether this call is the one.
bool Fails(std::string_view call) {
  if (!g_armed.load(std::memory_order_relaxed) || call != g_call) return false;
  const long n = g_calls.fetch_add(1) + 1;
  const bool here = g_step > 0 ? n % g_step == (1 % g_step) : n == g_at;
  if (!here) return false;
  g_armed = false;  // what forks and reports is not counted
  const bool fails = g_step == 0 || FailsInChild(n);
  if (fails) {
    g_step = 0;
    const StackText stack;
    Report(stack.text, stack.size, O_TRUNC);
    errno = g_errno;
  }
  g_armed = true;
  return fails;
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
  if (const char* step = std::getenv("FAIL_STEP")) g_step = std::atol(step);
  if (const char* said = std::getenv("FAIL_SAID")) g_said = said;
  if (const char* pipes = std::getenv("FAIL_PIPES")) std::sscanf(pipes, "%d,%d", &g_in, &g_out);
  unsetenv("LD_PRELOAD");  // children do not count
  void* frame;
  backtrace(&frame, 1);  // loads what it needs
  g_begin = SharedNow();
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

int pthread_create(pthread_t* made, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* data) {
  static const auto real = Next<decltype(&pthread_create)>("pthread_create");
  const int result = real(made, attributes, body, data);
  if (result == 0 && g_step > 0 && g_first_thread == 0) {
    g_first_thread = *made;
    ++g_begin.threads;
  }
  return result;
}

int pthread_join(pthread_t thread, void** result) {
  static const auto real = Next<decltype(&pthread_join)>("pthread_join");
  return g_is_child && thread == g_first_thread ? 0 : real(thread, result);
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
