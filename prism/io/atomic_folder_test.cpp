// SPDX-License-Identifier: Apache-2.0
#include "prism/io/atomic_folder.hpp"

#include <string>
#include <system_error>

#include <gtest/gtest.h>

#include "prism/io/atomic_file.hpp"
#include "prism/io/test_dir.hpp"

namespace prism {
namespace {

std::size_t entries(const std::filesystem::path& folder) {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++n;
  return n;
}

TEST(AtomicFolder, AppearsAsAWhole) {
  const TestDir dir;
  for (const char* name : {"new", "slash/", "empty"}) {
    if (std::string(name) == "empty") std::filesystem::create_directory(dir.path("empty"));
    AtomicFolder folder(dir.path(name));
    write_atomically(folder.temporary() / "a", "content");
    EXPECT_FALSE(std::filesystem::exists(dir.path(name) / "a"));
    folder.commit();
    EXPECT_EQ(dir.content(std::string(name) + "/a"), "content");
  }
  EXPECT_EQ(entries(dir.path()), 3U);
}

TEST(AtomicFolder, LeavesNothingUnlessCommitted) {
  const TestDir dir;
  {
    const AtomicFolder folder(dir.path("new"));
    write_atomically(folder.temporary() / "a", "content");
  }
  EXPECT_EQ(entries(dir.path()), 0U);
}

TEST(AtomicFolder, NeverMixesWithOtherFiles) {
  const TestDir dir;
  std::filesystem::create_directory(dir.path("full"));
  (void)dir.file("full/a", "old");
  (void)dir.file("file", "old");
  for (const char* name : {"full", "file", "missing/new"}) {
    try {
      const AtomicFolder folder(dir.path(name));
      ADD_FAILURE() << name << " was accepted";
    } catch (const std::system_error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(dir.content("full/a"), "old");
}

}  // namespace
}  // namespace prism
