// SPDX-License-Identifier: Apache-2.0
// A window that slides over the text of a file: what has been used leaves it, so a file of any size is read
// in little memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "prism/io/byte_stream.hpp"
#include "prism/io/stream_digest.hpp"

namespace prism {

class JsonWindow {
 public:
  /// `bytes`: size at first; `most_bytes`: how far it may grow for one piece of text that does not fit.
  JsonWindow(ByteStream& stream, std::size_t bytes, std::size_t most_bytes);

  [[nodiscard]] const char* begin() const { return buffer_.get(); }
  /// Behind the last byte; kJsonPadding zeros follow.
  [[nodiscard]] const char* end() const { return buffer_.get() + size_; }

  enum class More { Got, EndOfFile, TooLarge };

  /// Moves the text from `keep` to the start of the window and reads on behind it. All pointers into the
  /// window are void afterwards; `keep` is now begin(), whatever is returned.
  More more(const char* keep);

  /// Offset in the file (unpacked) of a byte of the window.
  [[nodiscard]] std::uint64_t offset(const char* at) const {
    return start_ + static_cast<std::uint64_t>(at - begin());
  }

  /// 64-bit digest of all text that was read; the same however the file is packed.
  [[nodiscard]] std::uint64_t digest() const { return digest_.value(); }

 private:
  ByteStream& stream_;
  StreamDigest digest_;
  std::size_t most_bytes_;
  std::size_t capacity_;
  std::unique_ptr<char[]> buffer_;
  std::size_t size_ = 0;
  std::uint64_t start_ = 0;  ///< offset of begin()
};

}  // namespace prism
