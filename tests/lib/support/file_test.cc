#include "lib/support/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lib/support/folder.h"
#include "lib/support/retry.h"

namespace infer {
namespace {

using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "infer_file_XXXXXX").string();
    dir_ = mkdtemp(pattern.data());
  }
  ~FileTest() override { std::filesystem::remove_all(dir_); }
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  size_t Entries() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(dir_), {}));
  }
  void Put(const std::string& name, std::string_view text) const {
    std::ofstream(Path(name)) << text;
  }
  std::string dir_;
};

TEST_F(FileTest, Sha256OfKnownText) {  // FIPS 180-2, appendix B.1
  const auto hash = Sha256Of(MemorySource("abc"));
  ASSERT_TRUE(hash.ok());
  EXPECT_EQ(*hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(FileTest, ReadsAndRefusesToReadPastTheEnd) {
  Put("a", "hello");
  auto f = InputFile::Open(Path("a"));
  ASSERT_TRUE(f.ok());
  char buffer[8];
  EXPECT_TRUE((*f)->Read(1, buffer, 4).ok());
  EXPECT_EQ(std::string_view(buffer, 4), "ello");
  EXPECT_EQ((*f)->Read(3, buffer, 4).code(), Code::kIo);
  // A file that shrinks is an error too, not a signal.
  std::filesystem::resize_file(Path("a"), 1);
  EXPECT_EQ((*f)->Read(0, buffer, 5).code(), Code::kIo);
}

TEST_F(FileTest, OnlyRegularFilesAreRead) {
  EXPECT_EQ(InputFile::Open(dir_).status().code(), Code::kIo);
  EXPECT_EQ(InputFile::Open(Path("absent")).status().code(), Code::kIo);
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(InputFile::Open(Path("pipe")).status().code(), Code::kIo);  // and does not wait
}

TEST_F(FileTest, AnOutputIsCompleteOrNotThere) {
  Put("out", "old");
  {
    auto f = AtomicFile::Create(Path("out"));
    ASSERT_TRUE(f.ok());
    ASSERT_TRUE((*f)->Write("new").ok());
    EXPECT_EQ(*ReadFile(Path("out")), "old");
    EXPECT_EQ(Entries(), 2u);
  }
  EXPECT_EQ(*ReadFile(Path("out")), "old");
  EXPECT_EQ(Entries(), 1u) << "the temporary file stayed";
  ASSERT_TRUE(WriteFileAtomically(Path("out"), "new").ok());
  EXPECT_EQ(*ReadFile(Path("out")), "new");
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(FileTest, AReservationLeavesNoTail) {
  auto f = AtomicFile::Create(Path("out"), {}, 1 << 20);
  ASSERT_TRUE(f.ok());
  ASSERT_TRUE((*f)->Write("short").ok());
  ASSERT_TRUE((*f)->Commit().ok());
  EXPECT_EQ(*ReadFile(Path("out")), "short");
}

TEST_F(FileTest, AnInputIsNeverAnOutput) {
  Put("in", "precious");
  std::filesystem::create_hard_link(Path("in"), Path("same"));
  std::filesystem::create_symlink("in", Path("link"));
  const FileId id = (*InputFile::Open(Path("in")))->id();
  for (const char* name : {"in", "same", "link"}) {
    const auto f = AtomicFile::Create(Path(name), {id});
    ASSERT_FALSE(f.ok());
    EXPECT_EQ(f.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(f.status().message(), HasSubstr("is an input"));
  }
  EXPECT_EQ(*ReadFile(Path("in")), "precious");
}

TEST_F(FileTest, AFullDiskKeepsTheOldFile) {
  Put("out", "old");
  // The size limit of the process stands for a full disk: write fails with EFBIG.
  struct sigaction ignore = {}, before;
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &ignore, &before);
  rlimit old_limit;
  getrlimit(RLIMIT_FSIZE, &old_limit);
  const rlimit small{1000, old_limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Status s = WriteFileAtomically(Path("out"), std::string(100'000, 'x'));
  setrlimit(RLIMIT_FSIZE, &old_limit);
  sigaction(SIGXFSZ, &before, nullptr);
  EXPECT_EQ(s.code(), Code::kIo);
  EXPECT_EQ(*ReadFile(Path("out")), "old");
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(FileTest, ASignalHandlerCanRemoveWhatIsUnfinished) {
  auto f = AtomicFile::Create(Path("out"));
  ASSERT_TRUE(f.ok());
  EXPECT_EQ(Entries(), 1u);
  RemoveUnfinishedFiles();
  EXPECT_EQ(Entries(), 0u);
}

TEST_F(FileTest, TheNextRunSweepsWhatNobodyHolds) {
  const pid_t child = fork();
  if (child == 0) {
    auto f = AtomicFile::Create(Path("out"));
    _exit(f.ok() ? 0 : 1);  // as if it was killed: no destructor runs
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  ASSERT_EQ(Entries(), 1u);
  Put(".other.tmp." + std::to_string(child) + ".1", "not ours");
  ASSERT_TRUE(WriteFileAtomically(Path("out"), "x").ok());
  EXPECT_EQ(Entries(), 2u);
}

TEST_F(FileTest, ASweepLeavesNamesThatWeDoNotWrite) {
  const std::vector<std::string> others = {".out.tmp.notes", ".out.tmp.12", ".out.tmp.1.2.3",
                                           ".out.tmp.1.x",   ".out.tmp..1", ".out.tmp.1."};
  for (const std::string& name : others) Put(name, "not ours");
  ASSERT_TRUE(WriteFileAtomically(Path("out"), "x").ok());
  for (const std::string& name : others) EXPECT_TRUE(std::filesystem::exists(Path(name))) << name;
}

TEST_F(FileTest, AWriterOfAnotherNamespaceKeepsItsFile) {
  // Its process id means nothing here: none has it, or one that is none of ours.
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 0;
  waitpid(child, &status, 0);
  const std::string live = Path(".out.tmp." + std::to_string(child) + ".1");
  const int fd = open(live.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
  ASSERT_TRUE(WriteFileAtomically(Path("out"), "x").ok());
  EXPECT_TRUE(std::filesystem::exists(live)) << "a live writer lost its file";
  close(fd);
  ASSERT_TRUE(WriteFileAtomically(Path("out"), "y").ok());
  EXPECT_FALSE(std::filesystem::exists(live));
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(FileTest, AWriterHoldsItsFileUntilItHasItsName) {
  auto first = AtomicFile::Create(Path("out"));
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE((*first)->Write("first").ok());
  ASSERT_TRUE(WriteFileAtomically(Path("out"), "second").ok());  // and sweeps
  EXPECT_EQ(*ReadFile(Path("out")), "second");
  ASSERT_TRUE((*first)->Commit().ok());
  EXPECT_EQ(*ReadFile(Path("out")), "first");
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(FileTest, ProcessesThatWriteOneNameLeaveAWholeFile) {
  constexpr int kWriters = 4, kRounds = 15;
  constexpr size_t kBytes = 200'000;
  std::vector<pid_t> children;
  for (int w = 0; w < kWriters; ++w) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    const std::string text(kBytes, static_cast<char>('a' + w));
    bool ok = true;
    for (int round = 0; round < kRounds; ++round)
      ok = ok && WriteFileAtomically(Path("out"), text).ok();
    _exit(ok ? 0 : 1);
  }
  const auto is_whole = [&] {
    const auto text = ReadFile(Path("out"));
    return text.ok() && text->size() == kBytes &&
           text->find_first_not_of(text->front()) == std::string::npos;
  };
  while (!std::filesystem::exists(Path("out"))) usleep(100);
  size_t left = children.size();
  while (left > 0) {
    EXPECT_TRUE(is_whole());
    int status = 0;
    if (waitpid(-1, &status, WNOHANG) <= 0) continue;
    --left;
    EXPECT_EQ(status, 0) << "a writer failed";
  }
  EXPECT_TRUE(is_whole());
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(FileTest, TheUmaskOfTheProcessStays) {
  const mode_t before = umask(027);
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::thread other([&] {  // makes files meanwhile; each must have the mode of the umask
    for (int i = 0; !done; ++i) {
      const std::string path = Path("other" + std::to_string(i));
      const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      struct stat s {};
      if (fd < 0 || fstat(fd, &s) != 0 || (s.st_mode & 0777) != 0640) ++wrong;
      close(fd);
      unlink(path.c_str());
    }
  });
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(WriteFileAtomically(Path("out"), "x").ok());
  done = true;
  other.join();
  umask(before);
  EXPECT_EQ(wrong, 0);
  struct stat s {};
  ASSERT_EQ(stat(Path("out").c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0640u);
}

TEST_F(FileTest, LinksAreWrittenThrough) {
  std::filesystem::create_directory(Path("far"));
  std::filesystem::create_symlink("far/real", Path("dangling"));
  std::filesystem::create_symlink("dangling", Path("twice"));
  for (const char* text : {"new", "newer"}) {
    ASSERT_TRUE(WriteFileAtomically(Path("twice"), text).ok());
    EXPECT_TRUE(std::filesystem::is_symlink(Path("dangling")));
    EXPECT_TRUE(std::filesystem::is_symlink(Path("twice")));
    EXPECT_EQ(*ReadFile(Path("far/real")), text);
  }
  std::filesystem::create_symlink("absent/real", Path("nowhere"));
  EXPECT_EQ(WriteFileAtomically(Path("nowhere"), "x").code(), Code::kIo);
  std::filesystem::create_symlink("round", Path("round"));
  EXPECT_EQ(WriteFileAtomically(Path("round"), "x").code(), Code::kIo);
  EXPECT_TRUE(std::filesystem::is_symlink(Path("round")));
}

/// Interrupts the thread that made it every 50 us.
class Interrupter {
 public:
  Interrupter() {
    struct sigaction quiet = {};
    quiet.sa_handler = [](int) {};  // without SA_RESTART
    sigaction(SIGUSR1, &quiet, &before_);
    thread_ = std::thread([this, target = pthread_self()] {
      for (; !done_; usleep(50)) pthread_kill(target, SIGUSR1);
    });
  }
  ~Interrupter() {
    done_ = true;
    thread_.join();
    sigaction(SIGUSR1, &before_, nullptr);
  }

 private:
  std::atomic<bool> done_{false};
  struct sigaction before_ = {};
  std::thread thread_;
};

TEST_F(FileTest, SignalsInterruptNothing) {
  const std::string text(3'000'000, 'x');
  const Interrupter interrupter;
  for (int i = 0; i < 10; ++i) {
    const Status s = WriteFileAtomically(Path("out"), text);
    ASSERT_TRUE(s.ok()) << s.message();
    EXPECT_EQ(ReadFile(Path("out"))->size(), text.size());
  }
}

TEST(Retry, OfWhatIsInterrupted) {
  int calls = 0;
  const auto interrupted = [&] {
    errno = EINTR;
    return ++calls < 3 ? -1 : 7;
  };
  EXPECT_EQ(Retry(interrupted), 7);
  calls = 0;
  const auto refused = [&] {
    errno = EACCES;
    return ++calls, -1;
  };
  EXPECT_EQ(Retry(refused), -1);
  EXPECT_EQ(calls, 1);
}

TEST_F(FileTest, EntriesOfAFolder) {
  Put("b", "");
  Put("a\xff", "");  // no UTF-8
  EXPECT_EQ(*EntriesOf(dir_), (std::vector<std::string>{"a\xff", "b"}));
  EXPECT_EQ(EntriesOf(Path("absent")).status().code(), Code::kIo);
  EXPECT_EQ(EntriesOf(Path("b")).status().code(), Code::kIo);
}

}  // namespace
}  // namespace infer
