// SPDX-License-Identifier: Apache-2.0
#include "prism/io/output_file.hpp"

#include <string>
#include <system_error>

#include <gtest/gtest.h>

#include "prism/io/bytes.hpp"
#include "prism/io/test_dir.hpp"

namespace prism {
namespace {

TEST(OutputFile, CompressesWhatIsNamedSo) {
  const TestDir dir;
  const std::string piece(100'000, 'x');
  for (const char* name : {"a.json", "a.json.gz"}) {
    OutputFile file(dir.path(name));
    file.write(piece);
    file.write("end");
    file.commit();
    EXPECT_EQ(read_bytes(dir.path(name)), piece + "end") << name;
  }
  EXPECT_EQ(std::filesystem::file_size(dir.path("a.json")), piece.size() + 3);
  EXPECT_LT(std::filesystem::file_size(dir.path("a.json.gz")), 1000U);
  EXPECT_EQ(dir.content("a.json.gz").substr(0, 2), "\x1f\x8b");
}

TEST(OutputFile, LeavesTheOldFileUnlessCommitted) {
  const TestDir dir;
  (void)dir.file("a.json", "old");
  {
    OutputFile file(dir.path("a.json"));
    file.write("new");
  }
  EXPECT_EQ(dir.content("a.json"), "old");
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir.path())) ++files;
  EXPECT_EQ(files, 1) << "a temporary file was left";
}

TEST(OutputFile, NamesAPlaceThatCannotBeWritten) {
  const TestDir dir;
  try {
    OutputFile file(dir.path("missing/a.json"));
    FAIL() << "opened a file in a folder that does not exist";
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("missing/a.json"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace prism
