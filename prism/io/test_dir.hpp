// SPDX-License-Identifier: Apache-2.0
// Files for tests: a fresh directory that is gone at the end of the test. Not part of the library.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace prism {

class TestDir {
 public:
  TestDir() : path_((std::filesystem::temp_directory_path() / "prism-test-XXXXXX").string()) {
    if (!::mkdtemp(path_.data())) throw std::runtime_error("no directory " + path_);
  }
  ~TestDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestDir(const TestDir&) = delete;
  TestDir& operator=(const TestDir&) = delete;

  [[nodiscard]] std::filesystem::path path(std::string_view name = {}) const {
    return std::filesystem::path(path_) / name;
  }

  /// Writes a file and returns its path.
  [[nodiscard]] std::filesystem::path file(std::string_view name, std::string_view content) const {
    std::ofstream out(path(name), std::ios::binary | std::ios::trunc);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    return path(name);
  }

  [[nodiscard]] std::string content(std::string_view name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  /// Names of all files in the directory, hidden ones too.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      found.push_back(entry.path().filename().string());
    }
    return found;
  }

 private:
  std::string path_;
};

/// The message of the exception of type E that `action` throws; what happened instead, if it does not.
template <typename E, typename Action>
std::string thrown(Action&& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("(another exception) ") + error.what();
  }
  return "(nothing thrown)";
}

}  // namespace prism
