// SPDX-License-Identifier: Apache-2.0
#include "prism/io/file_chunks.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace prism {

FileChunks::FileChunks(const std::filesystem::path& path, std::size_t chunk_bytes)
    : name_(path == "-" ? "standard input" : path.string()), buffer_(chunk_bytes), fd_(STDIN_FILENO) {
  if (path == "-") return;
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) fail(errno);
}

FileChunks::FileChunks(std::string_view bytes, std::string name) : name_(std::move(name)), memory_(bytes) {}

FileChunks::~FileChunks() {
  if (fd_ > STDIN_FILENO) ::close(fd_);
}

std::span<const char> FileChunks::next() {
  if (fd_ < 0) {
    const std::string_view rest = memory_.substr(end_);
    end_ = memory_.size();
    return {rest.data(), rest.size()};
  }
  std::size_t size = 0;
  while (size < buffer_.size()) {
    const ssize_t got = ::read(fd_, buffer_.data() + size, buffer_.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  end_ += size;
  return {buffer_.data(), size};
}

std::span<const char> FileChunks::first() {
  const std::span<const char> chunk = next();
  if (chunk.empty()) throw InputError(place(), "is empty", "check that the program that writes it has run");
  return chunk;
}

std::uint64_t FileChunks::size_hint() const {
  if (fd_ < 0) return memory_.size();
  struct stat status {};
  if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  return static_cast<std::uint64_t>(status.st_size);
}

void FileChunks::fail(int code) const {
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      throw InputError(place(), "does not exist", "check the path");
    case EISDIR:
      throw InputError(place(), "is a directory, not a file", "name a file in it");
    case EACCES:
    case EPERM:
      throw InputError(place(), "must not be read (permission denied)",
                       "ask its owner for read permission, or chmod +r");
    default:
      throw InputError(place(end_), "cannot be read (" + std::generic_category().message(code) + ")",
                       "check the disk or the network file system");
  }
}

}  // namespace prism
