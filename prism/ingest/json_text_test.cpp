// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/json_text.hpp"

#include <string>

#include <gtest/gtest.h>

#include "prism/ingest/json_string.hpp"

namespace prism {
namespace {

/// Text with the zeros that must follow it.
class Padded {
 public:
  explicit Padded(std::string text) : size_(text.size()), text_(std::move(text)) {
    text_.append(kJsonPadding, '\0');
  }
  [[nodiscard]] JsonText json() const { return {text_.data(), text_.data() + size_}; }

 private:
  std::size_t size_;
  std::string text_;
};

/// What follows the first value, or why it could not be taken.
std::string after_value(const std::string& text) {
  const Padded padded(text);
  JsonText json = padded.json();
  if (json.skip_value()) return std::string(json.p, json.end);
  return json.at_end() ? "(ends)" : "(broken)";
}

TEST(JsonText, SkipsAnyValue) {
  EXPECT_EQ(after_value("1,2"), ",2");
  EXPECT_EQ(after_value("-1.5e3}"), "}");
  EXPECT_EQ(after_value("null]"), "]");
  EXPECT_EQ(after_value("-nan,"), ",");
  EXPECT_EQ(after_value("Infinity "), " ");
  EXPECT_EQ(after_value(R"("a\"b",1)"), ",1");
  EXPECT_EQ(after_value(R"({"a":[1,{"b":"]}"}],"c":{}} x)"), " x");
  EXPECT_EQ(after_value("[]"), "");
  EXPECT_EQ(after_value(std::string("\"") + std::string(1000, 'x') + "\"y"), "y");
}

TEST(JsonText, TellsAnEndFromDamage) {
  for (const char* cut : {"", "\"abc", "\"abc\\", "[1,2", "{\"a\":", "{\"a\":\"b\"", "12", "{\"a\" "}) {
    EXPECT_EQ(after_value(cut), "(ends)") << cut;
  }
  for (const char* broken :
       {"}", ",", "[1}", "{\"a\":1]", "_", "[\"a\"b]", "[a\"b\"]", "[\"a\"\"b\"]", "[#]"}) {
    EXPECT_EQ(after_value(broken), "(broken)") << broken;
  }
  const std::string nul("[1,\0,2]", 7);
  EXPECT_EQ(after_value(nul), "(broken)");
}

TEST(JsonText, EveryCutOfAValueIsAnEnd) {
  const std::string text = R"({"name":"k\\\"\u00e9","args":{"grid":[8, 4,1],"x":-nan},"e":[[],{}]})";
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_EQ(after_value(text.substr(0, size)), "(ends)") << size;
  EXPECT_EQ(after_value(text), "");
}

TEST(JsonText, NestingIsBounded) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_EQ(after_value(nested(JsonText::kMaxDepth)), "");
  EXPECT_EQ(after_value(nested(JsonText::kMaxDepth + 1)), "(broken)");
  EXPECT_EQ(after_value(std::string(1'000'000, '[')), "(broken)");
}

TEST(JsonText, NotesWhatIsNotJsonInStrings) {
  const auto notes = [](const std::string& text) {
    const Padded padded(text);
    JsonText json = padded.json();
    EXPECT_TRUE(json.skip_value()) << text;
    return std::string(json.control_character ? "c" : "") + (json.bare_backslash ? "b" : "");
  };
  EXPECT_EQ(notes(R"("plain \n \u0041 \/")"), "");
  EXPECT_EQ(notes("\"a\x01z\""), "c");
  EXPECT_EQ(notes("\"line\nline\""), "c");
  EXPECT_EQ(notes(std::string("\"nul\0nul\"", 9)), "c");
  EXPECT_EQ(notes(R"("torch\cuda\_init")"), "b");
  EXPECT_EQ(notes("[\"\x7f\xc3\xa9\xff\"]"), "");  // not ASCII is no control character
}

// At every place in the eight bytes that are looked at together.
TEST(JsonText, FindsTheEndOfAStringAtEveryPlace) {
  for (std::size_t length = 0; length < 40; ++length) {
    for (const char c : {'a', '!', '\x7f', '\x80', '\xff', '#', '['}) {
      EXPECT_EQ(after_value("\"" + std::string(length, c) + "\"!"), "!") << length << " times " << int{c};
      EXPECT_EQ(after_value("\"" + std::string(length, c) + "\\\"\"!"), "!") << length << " times " << int{c};
    }
  }
}

TEST(JsonString, Escapes) {
  EXPECT_EQ(resolve_json_string(R"(a\"\\\/\b\f\n\r\tz)").text, "a\"\\/\b\f\n\r\tz");
  EXPECT_EQ(resolve_json_string(R"(\u0041\u00e9\u20ac\ud83d\ude00)").text,
            "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(resolve_json_string(R"(\ud83d \ude00x)").text, "\xef\xbf\xbd \xef\xbf\xbdx");
  EXPECT_EQ(resolve_json_string(R"(C:\cuda\_x\u12\)").text, R"(C:\cuda\_x\u12\)");
}

// Well-formed sequences and their neighbours: Unicode 15, table 3-7.
TEST(JsonString, Utf8) {
  for (const char* good : {"", "a", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xef\xbf\xbf",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
    EXPECT_FALSE(resolve_json_string(good).repaired);
  }
  for (const char* bad : {"\x80", "\xc1\x80", "\xc2",
                          "\xc2"
                          "a",
                          "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80", "\xe2\x82", "a\xff"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
    const JsonString repaired = resolve_json_string(bad);
    EXPECT_TRUE(repaired.repaired);
    EXPECT_TRUE(is_utf8(repaired.text));
  }
}

}  // namespace
}  // namespace prism
