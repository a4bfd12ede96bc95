// SPDX-License-Identifier: Apache-2.0
// Fuzz bytes as a file, for readers that take a path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

namespace prism::fuzz {

/// A directory of this process, emptied at the end.
class TemporaryInput {
 public:
  TemporaryInput()
      : folder_(std::filesystem::temp_directory_path() / ("prism-fuzz-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~TemporaryInput() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TemporaryInput(const TemporaryInput&) = delete;
  TemporaryInput& operator=(const TemporaryInput&) = delete;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  std::filesystem::path write(const std::string& name, const char* data, std::size_t size) const {
    std::filesystem::path path = folder_ / name;
    std::ofstream(path, std::ios::binary).write(data, static_cast<std::streamsize>(size));
    return path;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace prism::fuzz
