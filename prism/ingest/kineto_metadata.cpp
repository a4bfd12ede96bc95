// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/kineto_metadata.hpp"

#include <limits>

#include "prism/ingest/json_string.hpp"
#include "prism/ingest/kineto_numbers.hpp"

namespace prism {

namespace {

constexpr std::int64_t kMostRanks = std::numeric_limits<std::int32_t>::max();

std::optional<int> count_of(std::string_view text) {
  const auto value = kineto_int(text, 0, kMostRanks);
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

/// After a value in a container that `close` ends: takes a comma or the close, and says whether more follows.
bool next_item(JsonText& text, char close, bool& more) {
  more = text.peek() == ',';
  if (!more) return text.take(close);
  ++text.p;
  if (text.peek() == close) {
    more = false;
    ++text.p;
  }
  return true;
}

/// Calls use(key) for each key of an object; it must take the value. Any other value is skipped.
template <class Use>
bool for_each_key(JsonText& text, Use use) {
  if (text.peek() != '{') return text.skip_value();
  ++text.p;
  bool more = text.peek() != '}';
  if (!more) ++text.p;
  while (more) {
    std::string_view key;
    if (!text.key(key) || !use(key) || !next_item(text, '}', more)) return false;
  }
  return true;
}

/// Calls use() for each item of an array; it must take the item. Any other value is skipped.
template <class Use>
bool for_each_item(JsonText& text, Use use) {
  if (text.peek() != '[') return text.skip_value();
  ++text.p;
  bool more = text.peek() != ']';
  if (!more) ++text.p;
  while (more) {
    if (!use() || !next_item(text, ']', more)) return false;
  }
  return true;
}

bool read_text(JsonText& text, std::string& into) {
  std::string_view raw;
  if (!text.value(raw)) return false;
  into = resolve_json_string(raw).text;
  return true;
}

/// A list of ranks; on-demand traces write it as one string.
bool read_members(JsonText& text, std::vector<std::int32_t>& members) {
  text.peek();
  const char* const begin = text.p;
  std::string_view list;
  const bool is_array = *begin == '[';
  if (is_array ? !text.skip_value() : !text.value(list)) return false;
  if (is_array) list = {begin, static_cast<std::size_t>(text.p - begin)};
  members = kineto_ranks(list);
  return true;
}

bool read_group(JsonText& text, std::vector<ProcessGroup>& groups) {
  ProcessGroup& group = groups.emplace_back();
  return for_each_key(text, [&](std::string_view key) {
    if (key == "pg_name") return read_text(text, group.name);
    if (key == "pg_desc") return read_text(text, group.description);
    if (key == "ranks") return read_members(text, group.members);
    std::string_view value;
    if (!text.value(value)) return false;
    if (key == "pg_size") group.size = count_of(value).value_or(-1);
    return true;
  });
}

bool read_distributed_info(JsonText& text, KinetoMetadata& metadata) {
  return for_each_key(text, [&](std::string_view key) {
    if (key == "backend") return read_text(text, metadata.backend);
    if (key == "pg_config") {
      metadata.groups.clear();
      return for_each_item(text, [&] { return read_group(text, metadata.groups); });
    }
    std::string_view value;
    if (!text.value(value)) return false;
    if (key == "rank") metadata.rank = count_of(value);
    if (key == "world_size") metadata.world_size = count_of(value);
    return true;
  });
}

bool read_devices(JsonText& text, KinetoMetadata& metadata) {
  metadata.devices.clear();
  return for_each_item(text, [&] {
    auto& [id, name] = metadata.devices.emplace_back(-1, std::string());
    return for_each_key(text, [&, &number = id, &label = name](std::string_view key) {
      if (key == "name") return read_text(text, label);
      std::string_view value;
      if (!text.value(value)) return false;
      if (key == "id") number = static_cast<std::int32_t>(kineto_int(value, -1, kMostRanks).value_or(-1));
      return true;
    });
  });
}

}  // namespace

bool is_kineto_metadata(std::string_view key) {
  return key == "distributedInfo" || key == "deviceProperties" || key == "computeProperties" ||
         key == "baseTimeNanoseconds" || key == "host_name" || key == "common_clock";
}

bool read_kineto_metadata(std::string_view key, JsonText& text, KinetoMetadata& metadata) {
  if (key == "distributedInfo") return read_distributed_info(text, metadata);
  if (key == "host_name") return read_text(text, metadata.host);
  if (key == "common_clock") return read_text(text, metadata.common_clock);
  if (key != "baseTimeNanoseconds") return read_devices(text, metadata);
  constexpr std::int64_t kMostNanos = 4'000'000'000'000'000'000;  // 2096
  std::string_view value;
  if (!text.value(value)) return false;
  metadata.base_time_ns = kineto_int(value, 0, kMostNanos);
  return true;
}

}  // namespace prism
