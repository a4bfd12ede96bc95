// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/plan_table.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "prism/io/csv.hpp"

namespace prism {

struct PlanDocument {
  toml::table root;
  std::string source;
  std::vector<Setting> settings;
};

namespace {

const toml::table& as_table(const void* table) {
  return *static_cast<const toml::table*>(table);
}
const toml::node& as_node(const void* node) {
  return *static_cast<const toml::node*>(node);
}

std::string type_name(const toml::node& node) {
  std::ostringstream text;
  text << node.type();
  return text.str();
}

/// Levenshtein distance.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, change});
    }
  }
  return row.back();
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::string number_text(double value) {
  return fmt::format("{}", value);
}

PlanTable::PlanTable(std::shared_ptr<PlanDocument> document, const void* table, std::string path)
    : document_(std::move(document)),
      table_(table),
      path_(std::move(path)),
      known_(std::make_shared<std::vector<std::string>>()) {}

PlanTable PlanTable::parse(std::string_view text, const std::string& source) {
  auto document = std::make_shared<PlanDocument>();
  document->source = source;
  try {
    document->root = toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    throw InputError({source, error.source().begin.line, {}}, "not TOML: " + std::string(error.description()),
                     "docs/plans.md shows a whole plan");
  }
  const void* root = &document->root;
  return {std::move(document), root, ""};
}

bool PlanTable::present() const {
  return table_ != nullptr;
}

bool PlanTable::has(const std::string& key) const {
  return table_ != nullptr && as_table(table_).contains(key);
}

Place PlanTable::place(const std::string& key) const {
  if (table_ == nullptr) return {document_->source, {}, {}};
  const toml::node* node = key.empty() ? nullptr : as_table(table_).get(key);
  const std::uint64_t line =
      node != nullptr ? node->source().begin.line : as_table(table_).source().begin.line;
  return line == 0 ? Place{document_->source, {}, {}} : Place{document_->source, line, {}};
}

void PlanTable::refuse(const std::string& key, const std::string& problem, const std::string& fix) const {
  throw InputError(place(key), path_ + key + ": " + problem, fix);
}

const void* PlanTable::find(const std::string& key) {
  if (std::ranges::find(*known_, key) == known_->end()) known_->push_back(key);
  return table_ == nullptr ? nullptr : as_table(table_).get(key);
}

void PlanTable::given(const std::string& key, const std::string& value) {
  const Place at = place(key);
  document_->settings.push_back(
      {path_ + key, value, at.line ? "line " + std::to_string(*at.line) : "given", true});
}

void PlanTable::record(const std::string& key, const std::string& value, const std::string& source) {
  document_->settings.push_back({path_ + key, value, source, false});
}

std::vector<Setting> PlanTable::settings() const {
  return document_->settings;
}

std::optional<std::int64_t> PlanTable::integer(const std::string& key, std::int64_t least,
                                               std::int64_t most) {
  const void* found = find(key);
  if (found == nullptr) return std::nullopt;
  const std::optional<std::int64_t> value =
      as_node(found).is_integer() ? as_node(found).value<std::int64_t>() : std::nullopt;
  if (!value) refuse(key, "a whole number was expected, not a " + type_name(as_node(found)), "such as 8");
  if (*value < least || *value > most) {
    refuse(key, std::to_string(*value) + " is out of range",
           "from " + std::to_string(least) + " to " + std::to_string(most));
  }
  given(key, std::to_string(*value));
  return value;
}

std::optional<double> PlanTable::number(const std::string& key, double least, double most) {
  const void* found = find(key);
  if (found == nullptr) return std::nullopt;
  const std::optional<double> value =
      as_node(found).is_number() ? as_node(found).value<double>() : std::nullopt;
  if (!value) refuse(key, "a number was expected, not a " + type_name(as_node(found)), "such as 1.5");
  if (!(*value >= least && *value <= most)) {
    refuse(key, number_text(*value) + " is out of range",
           "from " + number_text(least) + " to " + number_text(most));
  }
  given(key, number_text(*value));
  return value;
}

std::optional<double> PlanTable::share(const std::string& key, double most) {
  const void* found = find(key);
  if (found == nullptr) return std::nullopt;
  if (!as_node(found).is_string()) return number(key, 0, most);
  std::string text = *as_node(found).value<std::string>();
  const std::string whole = text;
  while (!text.empty() && (text.back() == ' ' || text.back() == '%')) text.pop_back();
  const std::optional<double> percent = whole.ends_with('%') ? parse_double(text) : std::nullopt;
  if (!percent) refuse(key, "'" + whole + "' is no share", "such as 0.02 or \"2 %\"");
  if (!(*percent >= 0 && *percent / 100 <= most)) {
    refuse(key, whole + " is out of range", "from 0 % to " + number_text(most * 100) + " %");
  }
  given(key, whole);
  return *percent / 100;
}

std::optional<bool> PlanTable::flag(const std::string& key) {
  const void* found = find(key);
  if (found == nullptr) return std::nullopt;
  if (!as_node(found).is_boolean())
    refuse(key, "true or false was expected, not a " + type_name(as_node(found)), "without quotes");
  const bool value = *as_node(found).value<bool>();
  given(key, value ? "true" : "false");
  return value;
}

std::optional<std::string> PlanTable::text(const std::string& key) {
  const void* found = find(key);
  if (found == nullptr) return std::nullopt;
  if (!as_node(found).is_string())
    refuse(key, "a text was expected, not a " + type_name(as_node(found)), "in quotes");
  std::string value = *as_node(found).value<std::string>();
  given(key, value);
  return value;
}

std::vector<std::int64_t> PlanTable::integers(const std::string& key, std::int64_t least, std::int64_t most) {
  std::vector<std::int64_t> values;
  const void* found = find(key);
  if (found == nullptr) return values;
  const toml::array* array = as_node(found).as_array();
  if (array == nullptr) refuse(key, "a list of whole numbers was expected", "such as [4, 4, 3]");
  std::string text;
  for (const toml::node& element : *array) {
    const std::optional<std::int64_t> value =
        element.is_integer() ? element.value<std::int64_t>() : std::nullopt;
    if (!value || *value < least || *value > most) {
      refuse(key,
             "element " + std::to_string(values.size()) + " is no whole number from " +
                 std::to_string(least) + " to " + std::to_string(most),
             "such as [4, 4, 3]");
    }
    values.push_back(*value);
    text += (text.empty() ? "" : ", ") + std::to_string(*value);
  }
  given(key, "[" + text + "]");
  return values;
}

std::vector<std::string> PlanTable::texts(const std::string& key) {
  const void* found = find(key);
  if (found == nullptr) return {};
  if (as_node(found).is_string()) return {*text(key)};
  const toml::array* array = as_node(found).as_array();
  if (array == nullptr)
    refuse(key, "a text or a list of texts was expected", "such as [\"a.log\", \"b.log\"]");
  std::vector<std::string> values;
  for (const toml::node& element : *array) {
    if (!element.is_string())
      refuse(key, "element " + std::to_string(values.size()) + " is no text", "in quotes");
    values.push_back(*element.value<std::string>());
  }
  given(key, joined(values));
  return values;
}

std::int64_t PlanTable::integer(const std::string& key, std::int64_t least, std::int64_t most,
                                std::int64_t otherwise, const std::string& source) {
  if (const auto value = integer(key, least, most)) return *value;
  record(key, std::to_string(otherwise), source);
  return otherwise;
}

double PlanTable::number(const std::string& key, double least, double most, double otherwise,
                         const std::string& source) {
  if (const auto value = number(key, least, most)) return *value;
  record(key, number_text(otherwise), source);
  return otherwise;
}

double PlanTable::share(const std::string& key, double most, double otherwise, const std::string& source) {
  if (const auto value = share(key, most)) return *value;
  record(key, fmt::format("{:.4g} %", otherwise * 100), source);
  return otherwise;
}

bool PlanTable::flag(const std::string& key, bool otherwise, const std::string& source) {
  if (const auto value = flag(key)) return *value;
  record(key, otherwise ? "true" : "false", source);
  return otherwise;
}

std::size_t PlanTable::choice(const std::string& key, const std::vector<std::string>& names,
                              std::size_t otherwise, const std::string& source) {
  const auto value = text(key);
  if (!value) {
    record(key, names[otherwise], source);
    return otherwise;
  }
  const auto place = std::ranges::find(names, *value);
  if (place == names.end()) refuse(key, "'" + *value + "' is not known", "one of " + joined(names));
  return static_cast<std::size_t>(place - names.begin());
}

PlanTable PlanTable::table(const std::string& key) {
  const void* found = find(key);
  if (found != nullptr && !as_node(found).is_table()) {
    refuse(key, "a table was expected, not a " + type_name(as_node(found)), "[" + path_ + key + "]");
  }
  return {document_, found == nullptr ? nullptr : static_cast<const void*>(as_node(found).as_table()),
          path_ + key + "."};
}

std::vector<PlanTable> PlanTable::tables(const std::string& key) {
  std::vector<PlanTable> result;
  const void* found = find(key);
  if (found == nullptr) return result;
  const toml::array* array = as_node(found).as_array();
  if (array == nullptr) refuse(key, "a list of tables was expected", "[[" + path_ + key + "]]");
  for (const toml::node& element : *array) {
    if (!element.is_table()) refuse(key, "a list of tables was expected", "[[" + path_ + key + "]]");
    result.push_back(
        PlanTable(document_, element.as_table(), path_ + key + "[" + std::to_string(result.size()) + "]."));
  }
  return result;
}

void PlanTable::finish() const {
  if (table_ == nullptr) return;
  for (const auto& [key, node] : as_table(table_)) {
    const std::string name(key.str());
    if (std::ranges::find(*known_, name) != known_->end()) continue;
    std::string nearest;
    std::size_t least = 4;  // more edits than that are another word
    for (const std::string& known : *known_) {
      const std::size_t distance = edits(name.substr(0, 64), known);
      if (distance < least) {
        least = distance;
        nearest = known;
      }
    }
    refuse(name.substr(0, 64), "this key is not known",
           nearest.empty() ? "known: " + joined(*known_) : "did you mean '" + nearest + "'?");
  }
}

}  // namespace prism
