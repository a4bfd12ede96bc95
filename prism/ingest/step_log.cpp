// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/step_log.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "prism/io/csv.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr double kMostSeconds = 1e6;
constexpr double kLeastMilliseconds = 50;  // a median of numbers without a unit from here on

constexpr const char* kExpected =
    "give a CSV with a column such as step_time_s or step_time_ms, a column of numbers, or a training log "
    "(Megatron, torchtitan, MLLOG, or lines such as 'step_time: 1.23 s')";

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// Nanoseconds of a unit by its name.
std::optional<double> unit_ns(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, double>, 13> kUnits = {{{"s", 1e9},
                                                                           {"sec", 1e9},
                                                                           {"secs", 1e9},
                                                                           {"second", 1e9},
                                                                           {"seconds", 1e9},
                                                                           {"ms", 1e6},
                                                                           {"msec", 1e6},
                                                                           {"millis", 1e6},
                                                                           {"milliseconds", 1e6},
                                                                           {"us", 1e3},
                                                                           {"microseconds", 1e3},
                                                                           {"ns", 1},
                                                                           {"nanoseconds", 1}}};
  const auto found = std::ranges::find(kUnits, name, &std::pair<std::string_view, double>::first);
  if (found == kUnits.end()) return std::nullopt;
  return found->second;
}

/// A time as written; without a unit its nanoseconds are not known yet.
struct Written {
  double value = 0;
  std::optional<double> unit_ns;
  std::uint64_t line = 0;
  std::optional<std::int64_t> step;
};

// --- lines
// ----------------------------------------------------------------------------------------------------------

/// Calls `use(line, number)` with each line of the text.
template <class Use>
void for_each_line(std::string_view text, const Use& use) {
  std::uint64_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    use(text.substr(0, end), ++number);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
}

/// The line in lower case, without terminal colour codes.
std::string plain_line(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      while (i < line.size() && !is_letter(line[i])) ++i;
      continue;
    }
    plain += line[i];
  }
  return lower(plain);
}

/// Reads a number at the start of `text` and takes it off; thousands may be separated by commas.
std::optional<double> take_number(std::string_view& text) {
  std::string digits;
  std::size_t at = 0;
  const auto three_digits = [&](std::size_t from) {
    return from + 3 <= text.size() && std::ranges::all_of(text.substr(from, 3), is_digit) &&
           (from + 3 == text.size() || !is_digit(text[from + 3]));
  };
  for (; at < text.size(); ++at) {
    const char c = text[at];
    const bool exponent_sign = (c == '-' || c == '+') && !digits.empty() && digits.back() == 'e';
    const bool exponent = c == 'e' && !digits.empty() && at + 1 < text.size() &&
                          (is_digit(text[at + 1]) || text[at + 1] == '-' || text[at + 1] == '+');
    if (c == ',' && !digits.empty() && three_digits(at + 1)) continue;
    if (!is_digit(c) && c != '.' && !exponent && !exponent_sign && !(c == '-' && at == 0)) break;
    digits += c;
  }
  const auto value = parse_double(digits);
  if (value) text.remove_prefix(at);
  return value;
}

std::string_view take_letters(std::string_view& text) {
  std::size_t size = 0;
  while (size < text.size() && is_letter(text[size])) ++size;
  const std::string_view letters = text.substr(0, size);
  text.remove_prefix(size);
  return letters;
}

void skip(std::string_view& text, std::string_view letters) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(letters)));
}

/// What follows `key` where it stands as a word, or nothing.
std::optional<std::string_view> after_word(std::string_view line, std::string_view key) {
  for (std::size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    const bool starts = at == 0 || !(is_letter(line[at - 1]) || line[at - 1] == '_');
    if (starts) return line.substr(at + key.size());
  }
  return std::nullopt;
}

/// The step's number, where one is written.
std::optional<std::int64_t> step_number(std::string_view line) {
  for (const std::string_view key : {"iteration", "iter", "step"}) {
    auto rest = after_word(line, key);
    if (!rest) continue;
    skip(*rest, " :=\"");
    std::size_t size = 0;
    while (size < rest->size() && is_digit((*rest)[size])) ++size;
    if (const auto number = parse_int(rest->substr(0, size)); number && size > 0) return number;
  }
  return std::nullopt;
}

/// A unit written behind a key: "_ms", "(ms)" or " (s)".
std::optional<double> take_key_unit(std::string_view& rest) {
  std::string_view text = rest;
  skip(text, " ");
  if (text.empty() || (text.front() != '(' && text.front() != '_')) return std::nullopt;
  const bool bracket = text.front() == '(';
  text.remove_prefix(1);
  const auto unit = unit_ns(take_letters(text));
  if (!unit || (bracket && !text.starts_with(')'))) return std::nullopt;
  text.remove_prefix(bracket ? 1 : 0);
  rest = text;
  return unit;
}

/// Keys of step times in lines of text, without unit; where several have equally many lines, the first counts.
struct Key {
  std::string_view text;
  std::optional<double> unit_ns;  ///< that it always has
  bool averaged = false;          ///< a mean over the steps since the last line
};
constexpr std::array<Key, 11> kKeys = {{{"elapsed time per iteration", {}, true},
                                        {"train_step_time", 1e9, false},
                                        {"time_metrics/end_to_end", {}, true},
                                        {"step_time", {}, false},
                                        {"step time", {}, false},
                                        {"iteration_time", {}, false},
                                        {"iteration time", {}, false},
                                        {"iter_time", {}, false},
                                        {"time per step", {}, false},
                                        {"time per iteration", {}, false},
                                        {"time", {}, false}}};  // only in lines that begin with "iter"

std::optional<Written> time_after(const Key& key, std::string_view line) {
  if (key.text == "time" && !trimmed(line).starts_with("iter")) return std::nullopt;
  auto rest = after_word(line, key.text);
  if (!rest) return std::nullopt;
  Written found{.unit_ns = key.unit_ns};
  if (const auto unit = take_key_unit(*rest)) found.unit_ns = unit;
  if (!rest->empty() && (is_letter(rest->front()) || rest->front() == '_'))
    return std::nullopt;  // a longer word
  skip(*rest, " \t:='\"");
  const auto value = take_number(*rest);
  if (!value) return std::nullopt;
  found.value = *value;
  skip(*rest, " ");
  if (const auto unit = unit_ns(take_letters(*rest)); unit && !found.unit_ns) found.unit_ns = unit;
  found.step = step_number(line);
  return found;
}

/// Milliseconds since 1970 of the first "2026-01-16 07:00:02,123" in the line.
std::optional<std::int64_t> time_stamp_ms(std::string_view line) {
  constexpr std::string_view kShape = "dddd-dd-dd dd:dd:dd";
  for (std::size_t at = 0; at + kShape.size() <= line.size(); ++at) {
    bool fits = true;
    for (std::size_t i = 0; i < kShape.size() && fits; ++i) {
      fits = kShape[i] == 'd' ? is_digit(line[at + i])
                              : line[at + i] == kShape[i] || (kShape[i] == ' ' && line[at + i] == 't');
    }
    if (!fits) continue;
    const auto part = [&](std::size_t begin, std::size_t size) {
      return static_cast<int>(parse_int(line.substr(at + begin, size)).value_or(0));
    };
    const std::chrono::year_month_day date{std::chrono::year(part(0, 4)),
                                           std::chrono::month(static_cast<unsigned>(part(5, 2))),
                                           std::chrono::day(static_cast<unsigned>(part(8, 2)))};
    if (!date.ok()) return std::nullopt;
    const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
    const std::int64_t seconds = ((days * 24 + part(11, 2)) * 60 + part(14, 2)) * 60 + part(17, 2);
    const std::size_t fraction = at + kShape.size();
    const bool has_fraction = fraction + 4 <= line.size() &&
                              (line[fraction] == ',' || line[fraction] == '.') &&
                              std::ranges::all_of(line.substr(fraction + 1, 3), is_digit);
    return seconds * 1000 + (has_fraction ? part(kShape.size() + 1, 3) : 0);
  }
  return std::nullopt;
}

/// torchtitan writes no step time: steps are the differences of its time stamps.
class StampedSteps {
 public:
  void see(std::string_view line, std::uint64_t number) {
    if (!after_word(line, "tps") || !after_word(line, "loss")) return;
    const auto step = step_number(line);
    const auto stamp = time_stamp_ms(line);
    if (!step || !stamp || (last_step_ && *step <= *last_step_)) return;  // other ranks repeat a step
    if (last_step_) {
      times_.push_back(
          {.value = static_cast<double>(*stamp - last_stamp_ms_) / static_cast<double>(*step - *last_step_),
           .unit_ns = 1e6,
           .line = number,
           .step = step});
    }
    last_step_ = step;
    last_stamp_ms_ = *stamp;
  }
  std::vector<Written> take() { return std::move(times_); }

 private:
  std::vector<Written> times_;
  std::optional<std::int64_t> last_step_;
  std::int64_t last_stamp_ms_ = 0;
};

/// The most frequent distance between the steps of two neighbouring lines.
std::uint64_t usual_distance(const std::vector<Written>& times) {
  std::map<std::int64_t, std::size_t> count;
  for (std::size_t i = 1; i < times.size(); ++i) {
    if (times[i].step && times[i - 1].step && *times[i].step > *times[i - 1].step) {
      ++count[*times[i].step - *times[i - 1].step];
    }
  }
  if (count.empty()) return 1;
  const auto most = std::ranges::max_element(count, {}, [](const auto& entry) { return entry.second; });
  return static_cast<std::uint64_t>(most->first);
}

struct Found {
  std::string pattern;
  std::vector<Written> times;
  std::uint64_t averaged = 1;
};

Found find_in_lines(std::string_view text) {
  std::array<std::vector<Written>, kKeys.size()> by_key;
  StampedSteps stamped;
  for_each_line(text, [&](std::string_view raw, std::uint64_t number) {
    const std::string line = plain_line(raw);
    for (std::size_t i = 0; i < kKeys.size(); ++i) {
      auto found = time_after(kKeys[i], line);
      if (!found) continue;
      found->line = number;
      by_key[i].push_back(*found);
      break;
    }
    stamped.see(line, number);
  });
  const auto most = static_cast<std::size_t>(
      std::ranges::max_element(by_key, {}, &std::vector<Written>::size) - by_key.begin());
  Found found{std::string(kKeys[most].text), std::move(by_key[most]), 1};
  if (kKeys[most].averaged) found.averaged = usual_distance(found.times);
  if (found.times.empty()) {
    found.times = stamped.take();
    found.pattern = "time stamps of steps";
    found.averaged = usual_distance(found.times);
  }
  return found;
}

// --- columns
// --------------------------------------------------------------------------------------------------------

/// Unit of a column of step times, by its name: nothing if it is not one, 0 if the name has no unit.
std::optional<double> column_unit(std::string_view name) {
  constexpr std::array<std::string_view, 11> kNames = {
      "step_time",     "train_step_time",    "iteration_time",         "iter_time",
      "time_per_step", "time_per_iteration", "step_duration",          "step_seconds",
      "duration",      "iteration_duration", "time_metrics/end_to_end"};
  std::string text = lower(trimmed(name));
  std::ranges::replace(text, ' ', '_');
  if (const auto unit = unit_ns(text); unit && text.size() > 2) return unit;  // "seconds", "milliseconds"
  if (text == "step_seconds" || text == "train_step_time") return 1e9;
  const auto known = [&](std::string_view base) { return std::ranges::find(kNames, base) != kNames.end(); };
  if (known(text)) return text == "duration" ? std::nullopt : std::optional<double>(0);
  std::string_view base = text;
  if (base.ends_with(')')) base.remove_suffix(1);
  const std::size_t at = base.find_last_of("_(");
  if (at == std::string_view::npos) return std::nullopt;
  const auto unit = unit_ns(base.substr(at + 1));
  base = base.substr(0, at);
  if (base.ends_with('_')) base.remove_suffix(1);
  return unit && known(base) ? unit : std::nullopt;
}

std::string_view first_line(std::string_view text) {
  std::string_view found;
  for_each_line(text.substr(0, std::min<std::size_t>(text.size(), 1 << 16)),
                [&](std::string_view line, std::uint64_t) {
                  if (found.empty()) found = trimmed(line);
                });
  return found;
}

std::optional<Found> find_in_columns(std::string_view text, const std::string& name, ImportReport& report) {
  if (first_line(text).find(',') == std::string_view::npos) return std::nullopt;
  CsvReader rows(text, name);
  for (std::size_t column = 0; column < rows.header().size(); ++column) {
    const auto unit = column_unit(rows.header()[column]);
    if (!unit) continue;
    Found found{.pattern = "column " + rows.header()[column]};
    while (rows.next()) {
      const bool there = column < rows.fields().size();
      const auto value = there ? parse_double(rows.fields()[column]) : std::nullopt;
      if (value) {
        found.times.push_back({.value = *value, .line = rows.line()});
        if (*unit > 0) found.times.back().unit_ns = *unit;
      } else {
        report.add(Severity::DataLoss, "step time left out: not a number", rows.place().text());
      }
    }
    return found;
  }
  return std::nullopt;
}

/// A lone column of numbers, with or without a header.
std::optional<Found> find_numbers(std::string_view text, const std::string& name, ImportReport& report) {
  Found found{.pattern = "column of numbers"};
  std::optional<double> unit;
  std::size_t others = 0;
  bool first = true;
  for_each_line(text, [&](std::string_view raw, std::uint64_t number) {
    const std::string_view line = trimmed(raw);
    if (line.empty()) return;
    if (const auto value = parse_double(line)) {
      found.times.push_back({.value = *value, .unit_ns = unit, .line = number});
    } else if (first) {
      unit = column_unit(line);
      if (unit == 0) unit.reset();
    } else if (++others <= found.times.size()) {
      report.add(Severity::DataLoss, "step time left out: not a number", Place{name, number, {}}.text());
    }
    first = false;
  });
  if (found.times.empty() || others > found.times.size()) return std::nullopt;
  return found;
}

/// The times in nanoseconds, units that were not given guessed.
std::vector<LoggedStep> in_ns(const std::vector<Written>& times, const std::string& name,
                              ImportReport& report) {
  std::vector<double> without_unit;
  for (const Written& time : times) {
    if (!time.unit_ns && std::isfinite(time.value)) without_unit.push_back(time.value);
  }
  double guessed = 1e9;
  if (!without_unit.empty()) {
    const auto middle = without_unit.begin() + static_cast<std::ptrdiff_t>(without_unit.size() / 2);
    std::ranges::nth_element(without_unit, middle);
    guessed = *middle >= kLeastMilliseconds ? 1e6 : 1e9;
    report.add(Severity::Info,
               std::string("unit of step times not given: taken as ") +
                   (guessed == 1e6 ? "milliseconds" : "seconds"),
               name);
  }
  std::vector<LoggedStep> steps;
  for (const Written& time : times) {
    const double ns = time.value * time.unit_ns.value_or(guessed);
    if (ns > 0 && ns <= kMostSeconds * 1e9) {
      steps.push_back({ns, time.line});
    } else {
      report.add(Severity::DataLoss, "step time left out: not above 0", Place{name, time.line, {}}.text());
    }
  }
  return steps;
}

}  // namespace

StepLog parse_step_log(std::string_view text, const std::string& name, ImportReport& report) {
  std::optional<Found> found = find_in_columns(text, name, report);
  if (!found) {
    ImportReport numbers_report;
    found = find_numbers(text, name, numbers_report);
    if (found) {
      for (const ImportEntry& entry : numbers_report.entries()) report.add(entry);
    }
  }
  if (!found) found = find_in_lines(text);
  StepLog log{.source = name,
              .pattern = found->pattern,
              .steps = in_ns(found->times, name, report),
              .averaged = found->averaged};
  if (log.steps.empty()) throw InputError({name, {}, {}}, "no step time found", kExpected);
  return log;
}

}  // namespace prism
