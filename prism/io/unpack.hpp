// SPDX-License-Identifier: Apache-2.0
// Unpackers for what files are stored in; ByteStream chooses one. Internal to prism/io.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "prism/io/byte_stream.hpp"
#include "prism/io/file_chunks.hpp"

namespace prism {

/// Turns the stored chunks into content.
class Unpacker {
 public:
  Unpacker() = default;
  virtual ~Unpacker() = default;
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  /// Fills `into`; fewer bytes than its size only at the end or at damage.
  virtual std::size_t read(std::span<char> into) = 0;

  [[nodiscard]] const std::optional<Damage>& damage() const { return damage_; }

 protected:
  void damaged(std::uint64_t byte, std::string problem) { damage_ = Damage{byte, std::move(problem)}; }

 private:
  std::optional<Damage> damage_;
};

/// Each begins with `first`, the first chunk of `chunks`, which must outlive the unpacker.
std::unique_ptr<Unpacker> make_plain_unpacker(FileChunks& chunks, std::span<const char> first);
std::unique_ptr<Unpacker> make_gzip_unpacker(FileChunks& chunks, std::span<const char> first);
std::unique_ptr<Unpacker> make_zstd_unpacker(FileChunks& chunks, std::span<const char> first);

}  // namespace prism
