// SPDX-License-Identifier: Apache-2.0
#include "prism/io/atomic_folder.hpp"

#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include <sys/stat.h>

namespace prism {

namespace {

constexpr mode_t kMode = 0755;

[[noreturn]] void fail(const std::filesystem::path& path, int code, const char* what) {
  throw std::system_error(code, std::generic_category(), path.string() + ": " + what);
}

}  // namespace

AtomicFolder::AtomicFolder(const std::filesystem::path& path) : path_(path) {
  std::error_code error;
  if (!path_.has_filename()) path_ = path_.parent_path();  // "traces/"
  if (std::filesystem::exists(path_, error)) {
    if (!std::filesystem::is_directory(path_)) fail(path, ENOTDIR, "is not a folder");
    if (!std::filesystem::is_empty(path_)) fail(path, ENOTEMPTY, "holds files already; name a new folder");
  }
  const std::filesystem::path parent = path_.has_parent_path() ? path_.parent_path() : ".";
  std::string made = (parent / ".prism-XXXXXX").string();
  if (::mkdtemp(made.data()) == nullptr) fail(path, errno, "cannot be written");
  temporary_ = made;
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!committed_) std::filesystem::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  assert(!committed_);
  if (::chmod(temporary_.c_str(), kMode) != 0) fail(path_, errno, "cannot be written");  // mkdtemp's is 0700
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) fail(path_, error.value(), "cannot be written");
  committed_ = true;
}

}  // namespace prism
