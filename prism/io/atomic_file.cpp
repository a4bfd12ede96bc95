// SPDX-License-Identifier: Apache-2.0
#include "prism/io/atomic_file.hpp"

#include <cassert>
#include <cerrno>
#include <cstdint>
#include <random>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "prism/io/bytes.hpp"

namespace prism {

namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int code) {
  throw std::system_error(code, std::generic_category(), path.string() + ": cannot be written");
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

/// What one writes to but does not replace: /dev/null, a terminal, a pipe.
bool is_stream(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return std::filesystem::is_character_file(status) || std::filesystem::is_fifo(status);
}

/// The file a link points to, so that links (and /dev/stdout) stay links; `path` if it is none or points
/// nowhere.
std::filesystem::path behind_link(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target;
}

std::filesystem::path directory_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

void write_all(const Descriptor& file, const std::filesystem::path& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void write_file(const std::filesystem::path& file, const std::filesystem::path& path,
                std::string_view bytes) {
  const Descriptor out(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (!out.is_open()) fail(path, errno);
  write_all(out, path, bytes);
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(behind_link(path)) {
  std::error_code ignored;
  const std::filesystem::file_status old = std::filesystem::status(path_, ignored);
  if (std::filesystem::is_directory(old)) fail(path_, EISDIR);
  if (std::filesystem::is_other(old)) fail(path_, EINVAL);
  std::random_device random;
  int code = EEXIST;
  while (code == EEXIST) {
    const std::uint64_t number = (std::uint64_t{random()} << 32) | random();
    temporary_ = directory_of(path_) / (".prism-" + digest_text(number) + ".tmp");
    const Descriptor file(::open(temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666));
    code = file.is_open() ? 0 : errno;
  }
  if (code != 0) fail(path_, code);
}

AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void AtomicFile::commit() {
  assert(!committed_);
  {
    const Descriptor file(::open(temporary_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) fail(path_, errno);
    struct stat old {};
    const bool has_old = ::stat(path_.c_str(), &old) == 0;
    if (has_old && ::fchmod(file.get(), old.st_mode & 07777) != 0) fail(path_, errno);
    if (::fsync(file.get()) != 0) fail(path_, errno);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, errno);
  committed_ = true;
  // Without this a power cut may undo the rename. Some network file systems refuse it; the file is complete
  // anyway.
  const Descriptor directory(::open(directory_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.is_open()) ::fsync(directory.get());
}

void write_atomically(const std::filesystem::path& path, std::string_view bytes) {
  if (is_stream(path)) {
    write_file(path, path, bytes);
    return;
  }
  AtomicFile file(path);
  write_file(file.temporary(), path, bytes);
  file.commit();
}

}  // namespace prism
