// SPDX-License-Identifier: Apache-2.0
#include "prism/io/atomic_file.hpp"

#include <csignal>
#include <system_error>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "prism/io/test_dir.hpp"

namespace prism {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::string write_error(const std::filesystem::path& path, std::string_view bytes) {
  return thrown<std::system_error>([&] { write_atomically(path, bytes); });
}

/// While it lives, no file can grow beyond `size_bytes`: the nearest thing to a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t size_bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit = old_;
    limit.rlim_cur = size_bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    (void)std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit old_{};
};

TEST(WriteAtomically, WritesAndReplaces) {
  const TestDir dir;
  const std::string bytes("a\0b\n", 4);
  write_atomically(dir.path("x"), bytes);
  EXPECT_EQ(dir.content("x"), bytes);
  write_atomically(dir.path("x"), "");
  EXPECT_EQ(dir.content("x"), "");
  EXPECT_THAT(dir.names(), ElementsAre("x"));
}

TEST(WriteAtomically, NameWithoutDirectoryIsInTheCurrentOne) {
  const TestDir dir;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  write_atomically("x", "here");
  std::filesystem::current_path(before);
  EXPECT_EQ(dir.content("x"), "here");
}

TEST(WriteAtomically, FailedWriteLeavesTheOldContentAndNoTemporary) {
  const TestDir dir;
  const std::filesystem::path path = dir.file("x", "old");
  std::string message;
  {
    const FileSizeLimit limit(4096);
    message = write_error(path, std::string(100'000, 'n'));
  }
  EXPECT_THAT(message, HasSubstr(path.string() + ": cannot be written: File too large"));
  EXPECT_EQ(dir.content("x"), "old");
  EXPECT_THAT(dir.names(), ElementsAre("x"));
}

TEST(WriteAtomically, ErrorsNameThePath) {
  const TestDir dir;
  EXPECT_THAT(write_error(dir.path("none") / "x", "new"),
              HasSubstr("none/x: cannot be written: No such file"));
  std::filesystem::create_directory(dir.path("folder"));
  EXPECT_THAT(write_error(dir.path("folder"), "new"), HasSubstr("folder: cannot be written: Is a directory"));
  EXPECT_THAT(dir.names(), ElementsAre("folder"));
}

TEST(WriteAtomically, KeepsThePermissionsOfAnOldFile) {
  const TestDir dir;
  const std::filesystem::path path = dir.file("x", "old");
  constexpr auto kMode = std::filesystem::perms{0440};
  std::filesystem::permissions(path, kMode);
  write_atomically(path, "new");
  EXPECT_EQ(std::filesystem::status(path).permissions(), kMode);
  EXPECT_EQ(dir.content("x"), "new");
}

TEST(WriteAtomically, FollowsALink) {
  const TestDir dir;
  std::filesystem::create_symlink(dir.file("x", "old"), dir.path("link"));
  write_atomically(dir.path("link"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(dir.path("link")));
  EXPECT_EQ(dir.content("x"), "new");
}

TEST(WriteAtomically, DeviceStaysADevice) {
  write_atomically("/dev/null", "gone");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_THAT(thrown<std::system_error>([] { const AtomicFile file("/dev/null"); }),
              HasSubstr("/dev/null: "));
}

TEST(WriteAtomically, WritersAtTheSameTimeLeaveOneWholeFile) {
  const TestDir dir;
  const std::filesystem::path path = dir.path("x");
  std::vector<std::thread> writers;
  for (char letter = 'a'; letter < 'i'; ++letter) {
    writers.emplace_back([&path, letter] {
      for (int i = 0; i < 20; ++i) write_atomically(path, std::string(50'000, letter));
    });
  }
  for (std::thread& writer : writers) writer.join();
  const std::string content = dir.content("x");
  ASSERT_EQ(content.size(), 50'000U);
  EXPECT_EQ(content, std::string(50'000, content[0]));
  EXPECT_THAT(dir.names(), ElementsAre("x"));
}

TEST(AtomicFile, TemporaryNamesDiffer) {
  const TestDir dir;
  const AtomicFile one(dir.path("x"));
  const AtomicFile two(dir.path("x"));
  EXPECT_NE(one.temporary(), two.temporary());
  EXPECT_THAT(dir.names(),
              UnorderedElementsAre(one.temporary().filename().string(), two.temporary().filename().string()));
}

TEST(AtomicFile, WithoutCommitNothingChanges) {
  const TestDir dir;
  {
    const AtomicFile file(dir.file("x", "old"));
    (void)dir.file(file.temporary().filename().string(), "new");
  }
  EXPECT_EQ(dir.content("x"), "old");
  EXPECT_THAT(dir.names(), ElementsAre("x"));
}

TEST(AtomicFile, CommitReplacesTheTarget) {
  const TestDir dir;
  {
    AtomicFile file(dir.file("x", "old"));
    (void)dir.file(file.temporary().filename().string(), "new");
    EXPECT_EQ(dir.content("x"), "old");
    file.commit();
  }
  EXPECT_EQ(dir.content("x"), "new");
  EXPECT_THAT(dir.names(), ElementsAre("x"));
}

}  // namespace
}  // namespace prism
