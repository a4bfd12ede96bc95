// SPDX-License-Identifier: Apache-2.0
// Whole inputs as bytes, whatever they are packed in.
//
// Every reader of text starts here. gzip (several members too) and zstd (several frames too) are known by
// their first bytes, not by the file's name, and are unpacked in chunks while the file is read; everything
// else is returned as it is. "-" is standard input. What a file means is decided elsewhere, from these bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace prism {

struct ReadOptions {
  std::uint64_t max_bytes = std::uint64_t{64}
                            << 30;  ///< of content; against small files that unpack to huge ones
};

/// What could be read of a file whose compressed data may be damaged.
struct BytesRead {
  std::string bytes;  ///< unpacked content up to the damage
  std::optional<std::string>
      damage;  ///< what is damaged, at which byte of the file, and how much could be read
};

/// The whole content of a file or of standard input ("-"), unpacked.
///
/// Throws InputError if it does not exist, is a directory, must not be read, is empty, is incomplete or
/// damaged gzip or zstd data (with the byte in the compressed file), or holds more than `max_bytes`.
[[nodiscard]] std::string read_bytes(const std::filesystem::path& path, const ReadOptions& options = {});

/// As read_bytes, but damaged compressed data is returned as far as it goes, and said in `damage`.
[[nodiscard]] BytesRead read_bytes_tolerant(const std::filesystem::path& path,
                                            const ReadOptions& options = {});

/// The first bytes of a file as they are on disk (not unpacked), fewer if it is shorter than `count`.
///
/// For looking at large files before opening them; not for "-". Throws InputError as read_bytes does.
[[nodiscard]] std::string read_first_bytes(const std::filesystem::path& path, std::size_t count);

/// 64-bit FNV-1a of the bytes: the same on every machine, names an input in results; no protection against
/// forgery.
[[nodiscard]] std::uint64_t content_digest(std::string_view bytes);

/// A digest as 16 lower-case hexadecimal digits.
[[nodiscard]] std::string digest_text(std::uint64_t digest);

}  // namespace prism
