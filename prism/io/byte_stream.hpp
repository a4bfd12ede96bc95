// SPDX-License-Identifier: Apache-2.0
// The content of an input from start to end, whatever it is packed in, without ever holding all of it.
//
// gzip (several members too) and zstd (several frames too) are known by their first bytes, not by the file's
// name, and are unpacked straight into the reader's buffer; everything else comes as it is. Content may be
// larger than 4 GiB. Damaged compressed data ends the stream; what was readable before it has been handed out.
//
//   ByteStream stream(path);
//   while (const std::size_t size = stream.read(buffer)) use({buffer.data(), size});
//   if (stream.damage()) ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "prism/trace/error.hpp"

namespace prism {

/// Where and how compressed data is damaged.
struct Damage {
  std::uint64_t byte = 0;  ///< in the compressed file
  std::string problem;     ///< "gzip data ends too early"
};

class ByteStream {
 public:
  /// A file, or standard input for "-". Throws InputError if it does not exist, is a directory, must not be
  /// read, or is empty.
  explicit ByteStream(const std::filesystem::path& path);
  /// Bytes in memory, which must outlive the stream; `name` is used in messages. Throws InputError if empty.
  ByteStream(std::string_view bytes, std::string name);
  ~ByteStream();
  ByteStream(ByteStream&&) noexcept;
  ByteStream& operator=(ByteStream&&) noexcept;

  /// Fills `into` from its start and returns the number of bytes: less than its size only at the end of the
  /// content. Throws InputError if the disk fails.
  std::size_t read(std::span<char> into);

  /// The damage that ended the stream; nothing before the end has been reached.
  [[nodiscard]] const std::optional<Damage>& damage() const;

  /// Bytes of content, if known without reading (unpacked regular files), else 0.
  [[nodiscard]] std::uint64_t size_hint() const;

  /// The file, and optionally a byte of it, for messages.
  [[nodiscard]] Place place(std::optional<std::uint64_t> byte = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace prism
