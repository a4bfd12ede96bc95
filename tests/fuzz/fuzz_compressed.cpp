// SPDX-License-Identifier: Apache-2.0
// Bytes as a plain, gzip or zstd file: the tolerant reader returns a prefix of what the strict one does, or
// damage.
#include "prism/io/bytes.hpp"
#include "prism/trace/error.hpp"
#include "tests/fuzz/require.hpp"
#include "tests/fuzz/temporary_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const prism::fuzz::TemporaryInput input;
  const auto path = input.write("bytes", reinterpret_cast<const char*>(data), size);
  const prism::ReadOptions limit{.max_bytes = 1 << 20};
  prism::BytesRead tolerant;
  try {
    tolerant = prism::read_bytes_tolerant(path, limit);
  } catch (const prism::InputError&) {
    return 0;
  }
  try {
    const std::string strict = prism::read_bytes(path, limit);
    prism::fuzz::require(!tolerant.damage && strict == tolerant.bytes, "strict and tolerant reading differ");
  } catch (const prism::InputError&) {
    prism::fuzz::require(tolerant.damage.has_value(), "strict reading fails without damage");
  }
  return 0;
}
