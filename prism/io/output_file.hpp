// SPDX-License-Identifier: Apache-2.0
// A large output file, written in pieces: compressed on the way if its name ends in .gz, and complete or not
// there.
//
//   OutputFile file("rank0.json.gz");
//   file.write(piece);
//   file.commit();
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

namespace prism {

class OutputFile {
 public:
  /// Opens a temporary file beside `path`. Throws std::system_error with the path if that cannot be.
  explicit OutputFile(const std::filesystem::path& path);

  /// Removes what was written unless it was committed.
  ~OutputFile();

  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Appends bytes. Throws std::system_error with the path.
  void write(std::string_view bytes);

  /// Puts the file in place; nothing may be written after it. Throws std::system_error with the path.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace prism
