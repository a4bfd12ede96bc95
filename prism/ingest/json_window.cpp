// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/json_window.hpp"

#include <algorithm>
#include <cstring>

#include "prism/ingest/json_text.hpp"

namespace prism {

JsonWindow::JsonWindow(ByteStream& stream, std::size_t bytes, std::size_t most_bytes)
    : stream_(stream),
      most_bytes_(most_bytes),
      capacity_(bytes),
      buffer_(new char[capacity_ + kJsonPadding]()) {}

JsonWindow::More JsonWindow::more(const char* keep) {
  const std::size_t used = static_cast<std::size_t>(keep - begin());
  const std::size_t kept = size_ - used;
  start_ += used;
  if (kept > capacity_ / 2 && capacity_ < most_bytes_) {
    const std::size_t larger = std::min(2 * capacity_, most_bytes_);
    std::unique_ptr<char[]> buffer(new char[larger + kJsonPadding]);
    std::memcpy(buffer.get(), keep, kept);
    buffer_ = std::move(buffer);
    capacity_ = larger;
  } else {
    std::memmove(buffer_.get(), keep, kept);
  }
  size_ = kept;
  const std::size_t got = stream_.read({buffer_.get() + kept, capacity_ - kept});
  digest_.add({buffer_.get() + kept, got});
  size_ += got;
  std::memset(buffer_.get() + size_, 0, kJsonPadding);
  if (got > 0) return More::Got;
  return kept == capacity_ ? More::TooLarge : More::EndOfFile;
}

}  // namespace prism
