// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/kineto_event.hpp"

#include <array>

namespace prism {

namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// `lower_case` holds no capitals.
bool equal_in_any_case(std::string_view text, std::string_view lower_case) {
  if (text.size() != lower_case.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (lower(text[i]) != lower_case[i]) return false;
  }
  return true;
}

bool ends_in_any_case(std::string_view text, std::string_view lower_case) {
  return text.size() >= lower_case.size() &&
         equal_in_any_case(text.substr(text.size() - lower_case.size()), lower_case);
}

bool is_flow_category(std::string_view category) {
  return category == "ac2g" || category.starts_with("async");
}

/// A key, where its value goes, and its bit for finding repeated keys.
template <class Fields>
struct Field {
  std::string_view key;
  std::string_view Fields::*value;
};

constexpr std::array<Field<KinetoArgs>, 22> kArgs = {{
    {"device", &KinetoArgs::device},
    {"stream", &KinetoArgs::stream},
    {"correlation", &KinetoArgs::correlation},
    {"bytes", &KinetoArgs::bytes},
    {"graph id", &KinetoArgs::graph},
    {"cuda_sync_kind", &KinetoArgs::sync_kind},
    {"wait_on_stream", &KinetoArgs::wait_on_stream},
    {"wait_on_cuda_event_record_corr_id", &KinetoArgs::wait_on_record},
    {"Collective name", &KinetoArgs::collective},
    {"dtype", &KinetoArgs::dtype},
    {"Process Group Name", &KinetoArgs::group},
    {"Process Group Description", &KinetoArgs::group_description},
    {"Process Group Ranks", &KinetoArgs::group_ranks},
    {"Group size", &KinetoArgs::group_size},
    {"In msg nelems", &KinetoArgs::in_elements},
    {"Out msg nelems", &KinetoArgs::out_elements},
    {"Src Rank", &KinetoArgs::source},
    {"Dst Rank", &KinetoArgs::destination},
    {"Seq", &KinetoArgs::sequence},
    {"Comms Id", &KinetoArgs::comms_id},
    {"Concrete Inputs", &KinetoArgs::inputs},
    {"Input Dims", &KinetoArgs::input_dims},
}};
constexpr std::array<Field<KinetoHead>, 5> kTimes = {{
    {"ts", &KinetoHead::start},
    {"dur", &KinetoHead::duration},
    {"pid", &KinetoHead::pid},
    {"tid", &KinetoHead::tid},
    {"id", &KinetoHead::id},
}};

/// The fields by key length and first letter: two keys at most share a place.
template <class Fields, std::size_t N>
struct FieldIndex {
  static constexpr std::size_t kPlaces = 1024;
  std::array<std::array<std::uint8_t, 2>, kPlaces> places{};  ///< field number from 1; 0: none

  static constexpr std::size_t place(std::string_view key) {
    return (key.size() * 64 + static_cast<unsigned char>(key[0]) % 64U) % kPlaces;
  }
  constexpr explicit FieldIndex(const std::array<Field<Fields>, N>& fields) {
    for (std::size_t i = 0; i < N; ++i) {
      auto& at = places[place(fields[i].key)];
      // Writing past the second is an error at compile time: choose another place().
      at[at[0] == 0 ? 0 : at[1] == 0 ? 1 : 2] = static_cast<std::uint8_t>(i + 1);
    }
  }
};
constexpr FieldIndex<KinetoArgs, kArgs.size()> kArgsIndex(kArgs);
constexpr std::size_t kFirstList = 20;  // in kArgs: "Concrete Inputs" and what follows count as arrays only
static_assert(kArgs[kFirstList].value == &KinetoArgs::inputs);

/// A value of which arrays are wanted as text too.
bool value_or_array(JsonText& text, std::string_view& value) {
  if (text.peek() != '[') return text.value(value);
  const char* const begin = text.p;
  if (!text.skip_value()) return false;
  value = {begin, static_cast<std::size_t>(text.p - begin)};
  return true;
}

/// After a value: takes the comma and says whether a key follows. A comma before the brace is let through.
bool next_key(JsonText& text, bool& more) {
  const char c = text.peek();
  if (c == ',') {
    ++text.p;
    more = text.peek() != '}';
  } else {
    more = false;
  }
  if (more) return true;
  return text.take('}');
}

bool read_args(JsonText& text, KinetoEvent& event) {
  if (text.peek() != '{') return text.skip_value();
  ++text.p;
  if (event.has_args) event.args = KinetoArgs{};  // the key is repeated
  event.has_args = true;
  std::uint32_t seen = 0;
  bool more = text.peek() != '}';
  if (!more) ++text.p;
  while (more) {
    std::string_view key;
    if (!text.key(key)) return false;
    std::uint32_t field = 0;
    if (!key.empty()) {
      for (const std::uint8_t candidate : kArgsIndex.places[kArgsIndex.place(key)]) {
        if (candidate != 0 && kArgs[candidate - 1U].key == key) field = candidate;
      }
    }
    if (field == 0) {
      if (!text.skip_value()) return false;
    } else {
      event.repeated_key |= ((seen >> field) & 1U) != 0;
      seen |= 1U << field;
      std::string_view& value = event.args.*kArgs[field - 1].value;
      const bool is_array = text.peek() == '[';
      if (!value_or_array(text, value)) return false;
      if (field > kFirstList && !is_array) value = {};
    }
    if (!next_key(text, more)) return false;
  }
  return true;
}

enum class Use : std::uint8_t { Unknown, No, Yes };

/// Whether an event can be of use, once phase and category are known.
Use use_of(const KinetoEvent& event, bool has_category, bool with_flows) {
  switch (event.phase) {
    case 0:
      return Use::Unknown;
    case 'X':
      if (!has_category) return Use::Unknown;
      return event.kind == KinetoKind::Other || event.kind == KinetoKind::PythonFunction ? Use::No : Use::Yes;
    case 'B':
    case 'E':
      return Use::Yes;  // every begin matters for finding the end of the others
    case 's':
    case 'f':
      if (!with_flows) return Use::No;
      return !has_category ? Use::Unknown : event.flow ? Use::Yes : Use::No;
    default:
      return Use::No;
  }
}

bool wants_args(const KinetoEvent& event) {
  switch (event.kind) {
    case KinetoKind::CpuOp:
      return event.name == "record_param_comms";
    case KinetoKind::Annotation:
    case KinetoKind::PythonFunction:
    case KinetoKind::Other:
    case KinetoKind::MtiaDevice:
      return false;
    default:
      return true;
  }
}

}  // namespace

KinetoKind kineto_kind(std::string_view category) {
  const auto is = [&](std::string_view name) { return equal_in_any_case(category, name); };
  switch (category.size()) {
    case 6:
      if (is("kernel")) return KinetoKind::Kernel;
      if (is("cpu_op")) return KinetoKind::CpuOp;
      if (is("memcpy")) return KinetoKind::Memcpy;
      if (is("memset")) return KinetoKind::Memset;
      break;
    case 8:
      if (is("operator")) return KinetoKind::CpuOp;
      break;
    case 9:
      if (is("cuda_sync")) return KinetoKind::Sync;
      break;
    case 10:
      if (is("gpu_memcpy")) return KinetoKind::Memcpy;
      if (is("gpu_memset")) return KinetoKind::Memset;
      if (is("cuda_event")) return KinetoKind::CudaEvent;
      break;
    case 15:
      if (is("python_function")) return KinetoKind::PythonFunction;
      if (is("user_annotation")) return KinetoKind::Annotation;
      if (is("mtia_ccp_events")) return KinetoKind::MtiaDevice;
      break;
    default:
      break;
  }
  // cuda_runtime, cuda_driver, xpu_runtime, mtia_runtime, privateuse1_runtime, ..., and plain Runtime.
  if (ends_in_any_case(category, "runtime") || ends_in_any_case(category, "driver"))
    return KinetoKind::HostCall;
  return KinetoKind::Other;
}

bool read_kineto_event(JsonText& text, bool with_flows, KinetoEvent& event) {
  if (event.has_args) event.args = KinetoArgs{};
  static_cast<KinetoHead&>(event) = KinetoHead{};
  if (!text.take('{')) return false;
  bool has_category = false;
  bool has_name = false;
  const char* args_at = nullptr;  // passed before it was known whether they are wanted
  enum : std::uint32_t { kPhase = 8, kCategory, kName, kArgsKey };  // after kTimes
  std::uint32_t seen = 0;
  const auto see = [&](std::uint32_t bit) {
    event.repeated_key |= ((seen >> bit) & 1U) != 0;
    seen |= 1U << bit;
  };
  Use use = Use::Unknown;
  bool more = text.peek() != '}';
  if (!more) ++text.p;
  while (more) {
    std::string_view key;
    if (!text.key(key)) return false;
    std::string_view value;
    if (key == "ph") {
      see(kPhase);
      if (!text.value(value)) return false;
      event.phase = value.empty() ? '\0' : value[0];
      use = use_of(event, has_category, with_flows);
    } else if (key == "cat") {
      see(kCategory);
      if (!text.value(value)) return false;
      has_category = true;
      event.kind = kineto_kind(value);
      event.flow = is_flow_category(value);
      use = use_of(event, has_category, with_flows);
    } else if (key == "name") {
      see(kName);
      has_name = true;
      event.name_has_escape = false;
      if (text.peek() == '"' ? !text.string(event.name, event.name_has_escape) : !text.value(event.name)) {
        return false;
      }
    } else if (key == "args") {
      see(kArgsKey);
      const bool known = has_category && (has_name || event.kind != KinetoKind::CpuOp);
      if (known && wants_args(event)) {
        if (!read_args(text, event)) return false;
        args_at = nullptr;
      } else {
        text.peek();
        args_at = known ? nullptr : text.p;
        if (!text.skip_value()) return false;
      }
    } else {
      const Field<KinetoHead>* field = nullptr;
      for (const auto& candidate : kTimes) {
        if (candidate.key == key) field = &candidate;
      }
      if (field == nullptr) {
        if (!text.skip_value()) return false;
      } else {
        see(static_cast<std::uint32_t>(field - kTimes.data()));
        if (!text.value(event.*field->value)) return false;
      }
    }
    if (use == Use::No) {
      event.skipped = true;
      return text.skip_rest_of_object();
    }
    if (!next_key(text, more)) return false;
  }
  if (args_at != nullptr && wants_args(event)) {
    JsonText args{args_at, text.end};
    if (!read_args(args, event)) return false;
  }
  event.skipped = use != Use::Yes;
  return true;
}

}  // namespace prism
