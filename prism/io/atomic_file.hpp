// SPDX-License-Identifier: Apache-2.0
// Output files that are either complete or not there.
//
// Content goes to a temporary file in the same directory, is flushed to disk and then renamed over the
// target, so readers see the old file or the new one, and an interrupted run leaves the old one. For
// libraries that write a file themselves:
//
//   AtomicFile file("model.db");
//   { Database database = Database::create(file.temporary()); ... }
//   file.commit();
#pragma once

#include <filesystem>
#include <string_view>

namespace prism {

class AtomicFile {
 public:
  /// Creates an empty temporary file beside `path`, under a name no other writer has.
  ///
  /// A link is followed. Throws std::system_error with the path if that cannot be, or if `path` is a
  /// directory or a device.
  explicit AtomicFile(const std::filesystem::path& path);

  /// Removes the temporary file unless it was committed.
  ~AtomicFile();

  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Where to write; nobody may have it open for writing at commit().
  [[nodiscard]] const std::filesystem::path& temporary() const { return temporary_; }

  /// Replaces the target, keeping the permissions of an old file; at most once.
  ///
  /// Throws std::system_error with the path; the old file is then unchanged.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  bool committed_ = false;
};

/// Replaces the file's content as a whole; /dev/null, a terminal or a pipe is written to directly.
///
/// Throws std::system_error with the path; the old content is then unchanged and no temporary file is left.
void write_atomically(const std::filesystem::path& path, std::string_view bytes);

}  // namespace prism
