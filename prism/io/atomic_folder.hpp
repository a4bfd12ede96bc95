// SPDX-License-Identifier: Apache-2.0
// A folder of output files that is complete or not there.
//
//   AtomicFolder folder("traces");
//   write_atomically(folder.temporary() / "rank0.json", text);
//   folder.commit();
#pragma once

#include <filesystem>

namespace prism {

class AtomicFolder {
 public:
  /// Makes an empty folder beside `path`, under a name no other writer has.
  ///
  /// Throws std::system_error with the path if that cannot be, or if `path` exists and is not an empty folder.
  explicit AtomicFolder(const std::filesystem::path& path);

  /// Removes the folder and what is in it unless it was committed.
  ~AtomicFolder();

  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// Where to write.
  [[nodiscard]] const std::filesystem::path& temporary() const { return temporary_; }

  /// Gives the folder its name; at most once. Throws std::system_error with the path.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  bool committed_ = false;
};

}  // namespace prism
