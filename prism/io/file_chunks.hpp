// SPDX-License-Identifier: Apache-2.0
// A file, standard input or bytes in memory as a sequence of chunks, as they are stored; errors name the
// file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "prism/trace/error.hpp"

namespace prism {

class FileChunks {
 public:
  static constexpr std::size_t kChunkBytes = 256 * 1024;

  /// Opens a file, or standard input for "-". Throws InputError if it does not exist, is a directory or must
  /// not be read.
  explicit FileChunks(const std::filesystem::path& path, std::size_t chunk_bytes = kChunkBytes);
  /// All of `bytes` as one chunk; they must outlive this object. `name` is used in messages.
  FileChunks(std::string_view bytes, std::string name);
  ~FileChunks();
  FileChunks(const FileChunks&) = delete;
  FileChunks& operator=(const FileChunks&) = delete;

  /// Full chunks, then a shorter one, then empty ones; valid until the next call. Throws InputError if the
  /// disk fails.
  std::span<const char> next();

  /// As next(), for the first chunk: throws if there is nothing.
  std::span<const char> first();

  /// Bytes up to the end of the last chunk.
  [[nodiscard]] std::uint64_t end() const { return end_; }

  /// Size of a regular file or of the bytes in memory, 0 for pipes.
  [[nodiscard]] std::uint64_t size_hint() const;

  [[nodiscard]] Place place(std::optional<std::uint64_t> byte = {}) const { return {name_, {}, byte}; }

 private:
  [[noreturn]] void fail(int code) const;

  std::string name_;
  std::vector<char> buffer_;
  std::string_view memory_;
  int fd_ = -1;  ///< -1: memory
  std::uint64_t end_ = 0;
};

}  // namespace prism
