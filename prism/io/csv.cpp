// SPDX-License-Identifier: Apache-2.0
#include "prism/io/csv.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

namespace prism {

namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// As text.find, but the end of the text where find says npos.
std::size_t find_or_end(std::string_view text, char wanted, std::size_t from) {
  return std::min(text.find(wanted, from), text.size());
}

std::string_view number_text(std::string_view field) {
  constexpr std::string_view kSpaces = " \t";
  const std::size_t begin = field.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  field = field.substr(begin, field.find_last_not_of(kSpaces) - begin + 1);
  // from_chars takes no '+'; "+-1" must stay wrong.
  if (field.size() > 1 && field[0] == '+' && field[1] != '-') field.remove_prefix(1);
  return field;
}

template <typename Number>
std::optional<Number> parse_whole(std::string_view field) {
  const std::string_view text = number_text(field);
  const char* const end = text.data() + text.size();
  Number value{};
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

}  // namespace

CsvReader::CsvReader(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {
  if (text_.starts_with(kByteOrderMark)) position_ = kByteOrderMark.size();
  if (!next()) {
    throw InputError({file_, {}, {}}, "has no header line", "its first line must name the columns");
  }
  if (malformed_) {
    throw InputError(place(), "the header has a quote that is not closed, or text after a closing quote",
                     "quote column names as \"name\", or not at all");
  }
  header_.assign(fields_.begin(), fields_.end());
}

std::optional<std::size_t> CsvReader::column(std::string_view name) const {
  const auto found = std::ranges::find(header_, name);
  if (found == header_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - header_.begin());
}

bool CsvReader::next() {
  fields_.clear();
  malformed_ = false;
  std::size_t line_end = find_or_end(text_, '\n', position_);
  while (position_ < text_.size()) {
    const std::string_view line = text_.substr(position_, line_end - position_);
    if (!line.empty() && line != "\r") break;
    position_ = std::min(line_end + 1, text_.size());
    ++next_line_;
    line_end = find_or_end(text_, '\n', position_);
  }
  if (position_ >= text_.size()) return false;

  line_ = next_line_;
  if (next_quote_ <= position_) next_quote_ = find_or_end(text_, '"', position_);
  if (next_quote_ >= line_end) {
    split_plain(line_end);
    return true;
  }
  buffer_.clear();
  buffered_.clear();
  while (read_field()) {
  }
  for (const Buffered& entry : buffered_) {
    fields_[entry.field] = std::string_view(buffer_).substr(entry.begin, entry.size);
  }
  return true;
}

/// The usual case, a line without quotes.
void CsvReader::split_plain(std::size_t line_end) {
  const std::string_view line = text_.substr(position_, line_end - position_);
  std::size_t begin = 0;
  for (std::size_t comma = line.find(','); comma != std::string_view::npos; comma = line.find(',', begin)) {
    fields_.push_back(line.substr(begin, comma - begin));
    begin = comma + 1;
  }
  fields_.push_back(line.substr(begin));
  end_field(line_end);
}

/// Reads the field at position_ and what ends it; true if the record goes on.
bool CsvReader::read_field() {
  if (position_ < text_.size() && text_[position_] == '"') return read_quoted_field();
  const std::size_t end = std::min(text_.find_first_of(",\n", position_), text_.size());
  fields_.push_back(text_.substr(position_, end - position_));
  return end_field(end);
}

bool CsvReader::read_quoted_field() {
  const std::size_t buffer_begin = buffer_.size();
  std::size_t part = position_ + 1;
  std::size_t quote = text_.find('"', part);
  while (quote != std::string_view::npos && text_.substr(quote + 1, 1) == "\"") {
    buffer_.append(text_, part, quote + 1 - part);
    part = quote + 2;
    quote = text_.find('"', part);
  }
  if (quote == std::string_view::npos) {
    buffer_.resize(buffer_begin);
    read_unclosed_field();
    return false;
  }
  const auto line_breaks = std::ranges::count(text_.substr(position_, quote - position_), '\n');
  next_line_ += static_cast<std::uint64_t>(line_breaks);

  const std::size_t end = std::min(text_.find_first_of(",\n", quote + 1), text_.size());
  std::string_view rest = text_.substr(quote + 1, end - quote - 1);
  const bool record_ends = end == text_.size() || text_[end] == '\n';
  if (record_ends && rest.ends_with('\r')) rest.remove_suffix(1);
  malformed_ = malformed_ || !rest.empty();
  fields_.push_back(text_.substr(part, quote - part));
  if (part != position_ + 1 || !rest.empty()) {
    buffer_.append(fields_.back()).append(rest);
    buffered_.push_back({fields_.size() - 1, buffer_begin, buffer_.size() - buffer_begin});
  }
  position_ = std::min(end + 1, text_.size());
  if (record_ends) ++next_line_;
  return !record_ends;
}

/// The rest of the line, so that one stray quote does not swallow the rest of the file.
void CsvReader::read_unclosed_field() {
  malformed_ = true;
  const std::size_t end = find_or_end(text_, '\n', position_);
  fields_.push_back(text_.substr(position_ + 1, end - position_ - 1));
  end_field(end);
}

/// Steps over the comma or line break at `end`; true if it is a comma.
bool CsvReader::end_field(std::size_t end) {
  position_ = std::min(end + 1, text_.size());
  if (end < text_.size() && text_[end] == ',') return true;
  if (fields_.back().ends_with('\r')) fields_.back().remove_suffix(1);
  ++next_line_;
  return false;
}

std::optional<std::int64_t> parse_int(std::string_view field) {
  return parse_whole<std::int64_t>(field);
}

std::optional<double> parse_double(std::string_view field) {
  return parse_whole<double>(field);
}

std::string csv_field(std::string_view field) {
  // A byte order mark at the start of a file would be taken off.
  const bool plain =
      field.find_first_of(",\"\r\n") == std::string_view::npos && !field.starts_with(kByteOrderMark);
  if (plain) return std::string(field);
  std::string text = "\"";
  for (const char letter : field) {
    if (letter == '"') text += '"';
    text += letter;
  }
  return text + '"';
}

std::string csv_row(std::span<const std::string> fields) {
  // An empty line is not a record.
  if (fields.size() == 1 && fields[0].empty()) return "\"\"\n";
  std::string text;
  for (const std::string& field : fields) {
    if (&field != fields.data()) text += ',';
    text += csv_field(field);
  }
  return text + '\n';
}

std::string csv_number(double value) {
  std::array<char, 32> text;  // the longest is "-2.2250738585072014e-308"
  const std::to_chars_result result = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), result.ptr};
}

}  // namespace prism
