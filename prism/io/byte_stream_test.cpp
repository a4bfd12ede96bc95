// SPDX-License-Identifier: Apache-2.0
#include "prism/io/byte_stream.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <zlib.h>

#include "prism/io/stream_digest.hpp"
#include "prism/io/test_dir.hpp"

namespace prism {
namespace {

using ::testing::HasSubstr;

std::string gzip(const std::string& text) {
  const TestDir dir;
  const std::string path = dir.path("packed").string();
  const gzFile file = gzopen(path.c_str(), "wb");
  EXPECT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
  gzclose(file);
  return dir.content("packed");
}

std::string numbers(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += std::to_string(i * i) + "\n";
  return text;
}

/// All content, in pieces of `part` bytes.
std::string read_all(ByteStream& stream, std::size_t part) {
  std::string text;
  std::vector<char> buffer(part);
  while (const std::size_t size = stream.read(buffer)) {
    text.append(buffer.data(), size);
    if (size < part) break;
  }
  return text;
}

TEST(ByteStream, PiecesOfAnySizeGiveTheContent) {
  const std::string text = numbers(100'000);
  const std::string members = gzip(text.substr(0, 1000)) + gzip("") + gzip(text.substr(1000));
  for (const std::string& stored : {text, gzip(text), members}) {
    for (const std::size_t part :
         {std::size_t{1}, std::size_t{1000}, std::size_t{32768}, std::size_t{10'000'000}}) {
      ByteStream stream(stored, "memory");
      EXPECT_TRUE(read_all(stream, part) == text) << "in pieces of " << part;
      EXPECT_FALSE(stream.damage());
    }
  }
}

TEST(ByteStream, DamageComesAfterTheContentBeforeIt) {
  const std::string text = numbers(100'000);
  const std::string packed = gzip(text);
  ByteStream stream(std::string_view(packed).substr(0, packed.size() / 2), "memory");
  const std::string read = read_all(stream, 4096);
  EXPECT_GT(read.size(), text.size() / 3);
  EXPECT_TRUE(text.starts_with(read));
  ASSERT_TRUE(stream.damage());
  EXPECT_EQ(stream.damage()->byte, packed.size() / 2);
  EXPECT_EQ(stream.damage()->problem, "gzip data ends too early");
  std::vector<char> more(10);
  EXPECT_EQ(stream.read(more), 0U);
}

TEST(ByteStream, NamesWhatItReads) {
  ByteStream stream(std::string_view("abc"), "memory");
  EXPECT_EQ(stream.size_hint(), 3U);
  EXPECT_EQ(stream.place(2).text(), "memory at byte 2");
  EXPECT_THAT(thrown<InputError>([] { ByteStream(std::string_view(), "nothing"); }),
              HasSubstr("nothing: is empty"));
}

RC_GTEST_PROP(StreamDigest, DoesNotDependOnThePieces, (const std::vector<std::string>& pieces)) {
  StreamDigest in_pieces;
  std::string all;
  for (const std::string& piece : pieces) {
    in_pieces.add(piece);
    all += piece;
  }
  StreamDigest at_once;
  at_once.add(all);
  RC_ASSERT(in_pieces.value() == at_once.value());
}

TEST(StreamDigest, TellsTextsApart) {
  const auto digest = [](std::string_view text) {
    StreamDigest stream;
    stream.add(text);
    return stream.value();
  };
  const std::string text(100, 'a');
  std::vector<std::uint64_t> digests = {digest(""), digest(std::string(1, '\0')),
                                        digest(std::string(32, '\0')), digest(text)};
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      digests.push_back(digest(changed));
    }
  }
  std::ranges::sort(digests);
  EXPECT_EQ(std::ranges::adjacent_find(digests), digests.end());
}

}  // namespace
}  // namespace prism
