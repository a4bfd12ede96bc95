// SPDX-License-Identifier: Apache-2.0
#include "prism/io/bytes.hpp"

#include <utility>
#include <vector>

#include "prism/io/byte_stream.hpp"
#include "prism/io/file_chunks.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

struct Content {
  std::string bytes;
  std::optional<Damage> damage;
  Place place;  ///< of the damage, else of the file
};

Content read_content(const std::filesystem::path& path, const ReadOptions& options) {
  ByteStream stream(path);
  Content content{{}, {}, stream.place()};
  const auto check = [&](std::uint64_t size) {
    if (size <= options.max_bytes) return;
    throw InputError(stream.place(),
                     "holds more than the limit of " + std::to_string(options.max_bytes) + " bytes",
                     "raise the limit if the file is trusted, or give a shorter trace");
  };
  check(stream.size_hint());
  content.bytes.reserve(stream.size_hint());
  std::vector<char> part(FileChunks::kChunkBytes);
  while (const std::size_t size = stream.read(part)) {
    check(content.bytes.size() + size);
    content.bytes.append(part.data(), size);
  }
  content.damage = stream.damage();
  if (content.damage) {
    content.place.byte = content.damage->byte;
    content.damage->problem += "; " + std::to_string(content.bytes.size()) + " bytes could be read";
  } else if (content.bytes.empty()) {
    throw InputError(content.place, "is empty after unpacking",
                     "check that the program that writes it has run");
  }
  return content;
}

}  // namespace

std::string read_bytes(const std::filesystem::path& path, const ReadOptions& options) {
  Content content = read_content(path, options);
  if (content.damage) {
    throw InputError(content.place, content.damage->problem,
                     "copy the file again, or let the program that writes it finish");
  }
  return std::move(content.bytes);
}

BytesRead read_bytes_tolerant(const std::filesystem::path& path, const ReadOptions& options) {
  Content content = read_content(path, options);
  BytesRead result{std::move(content.bytes), std::nullopt};
  if (content.damage) {
    result.damage = "at byte " + std::to_string(content.damage->byte) + ": " + content.damage->problem;
  }
  return result;
}

std::string read_first_bytes(const std::filesystem::path& path, std::size_t count) {
  FileChunks chunks(path, count);
  const std::span<const char> bytes = chunks.first();
  return {bytes.data(), bytes.size()};
}

std::uint64_t content_digest(std::string_view bytes) {
  std::uint64_t digest = 0xcbf29ce484222325U;
  for (const char byte : bytes) {
    digest ^= static_cast<unsigned char>(byte);
    digest *= 0x100000001b3U;
  }
  return digest;
}

std::string digest_text(std::uint64_t digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; digest >>= 4) text[i] = kDigits[digest & 0xf];
  return text;
}

}  // namespace prism
