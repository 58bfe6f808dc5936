#include "lib/support/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

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

TEST_F(FileTest, TheNextRunSweepsFilesOfDeadProcesses) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 0;
  waitpid(child, &status, 0);
  Put(".out.tmp." + std::to_string(child) + ".1", "stale");
  Put(".out.tmp." + std::to_string(getpid()) + ".1", "alive");
  Put(".other.tmp." + std::to_string(child) + ".1", "not ours");
  ASSERT_TRUE(WriteFileAtomically(Path("out"), "x").ok());
  EXPECT_EQ(Entries(), 3u);
}

}  // namespace
}  // namespace infer
