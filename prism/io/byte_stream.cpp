// SPDX-License-Identifier: Apache-2.0
#include "prism/io/byte_stream.hpp"

#include <algorithm>
#include <utility>

#include "prism/io/file_chunks.hpp"
#include "prism/io/unpack.hpp"

namespace prism {

namespace {

/// A file cut within its first bytes still counts as compressed; a single 0x28 is text, "(".
bool is_gzip(std::string_view start) {
  return start.substr(0, 2) == "\x1f\x8b" || start == "\x1f";
}

bool is_zstd(std::string_view start) {
  constexpr std::string_view kFrame = "\x28\xb5\x2f\xfd";
  // RFC 8878 3.1.2: skippable frames have the sixteen magic numbers 0x184D2A50 to 0x184D2A5F.
  const bool skippable =
      start.size() >= 4 && (start[0] & 0xf0) == 0x50 && start.substr(1, 3) == "\x2a\x4d\x18";
  const bool cut = start.size() >= 2 && start.size() < 4 && kFrame.starts_with(start);
  return start.starts_with(kFrame) || skippable || cut;
}

}  // namespace

struct ByteStream::State {
  template <class... Args>
  explicit State(Args&&... args) : chunks(std::forward<Args>(args)...) {
    const std::span<const char> first = chunks.first();
    const std::string_view start(first.data(), std::min<std::size_t>(first.size(), 4));
    packed = is_gzip(start) || is_zstd(start);
    const auto make = is_gzip(start)   ? make_gzip_unpacker
                      : is_zstd(start) ? make_zstd_unpacker
                                       : make_plain_unpacker;
    unpacker = make(chunks, first);
  }

  FileChunks chunks;
  std::unique_ptr<Unpacker> unpacker;
  bool packed = false;
};

ByteStream::ByteStream(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}
ByteStream::ByteStream(std::string_view bytes, std::string name)
    : state_(std::make_unique<State>(bytes, std::move(name))) {}
ByteStream::~ByteStream() = default;
ByteStream::ByteStream(ByteStream&&) noexcept = default;
ByteStream& ByteStream::operator=(ByteStream&&) noexcept = default;

std::size_t ByteStream::read(std::span<char> into) {
  return state_->unpacker->read(into);
}

const std::optional<Damage>& ByteStream::damage() const {
  return state_->unpacker->damage();
}

std::uint64_t ByteStream::size_hint() const {
  return state_->packed ? 0 : state_->chunks.size_hint();
}

Place ByteStream::place(std::optional<std::uint64_t> byte) const {
  return state_->chunks.place(byte);
}

}  // namespace prism
