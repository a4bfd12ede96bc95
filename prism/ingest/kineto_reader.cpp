// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/kineto_reader.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "prism/ingest/json_text.hpp"
#include "prism/ingest/json_window.hpp"
#include "prism/ingest/kineto_event.hpp"
#include "prism/ingest/kineto_metadata.hpp"
#include "prism/ingest/rank_trace_builder.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

/// How far the search for the next sound text looks back and ahead of a place.
constexpr std::size_t kLookAround = 256;

enum class Taken { Yes, Broken, TooLong, EndOfFile };

class KinetoReader {
 public:
  KinetoReader(ByteStream& stream, const RunControl& control, KinetoNotes& notes, const KinetoLimits& limits)
      : stream_(stream),
        control_(control),
        notes_(notes),
        window_(stream, limits.window_bytes, limits.most_window_bytes),
        builder_(notes) {
    stand_at(window_.begin());
  }

  RankTrace read() {
    constexpr std::string_view kMark = "\xef\xbb\xbf";
    more(text_.p);
    if (rest().starts_with(kMark)) text_.p += kMark.size();
    switch (peek()) {
      case '[':
        ++text_.p;
        top_level_array_ = true;
        read_events();
        break;
      case '{':
        ++text_.p;
        read_blocks();
        break;
      default:
        refuse();
    }
    if (!events_seen_) refuse();
    while (more(window_.end()) != JsonWindow::More::EndOfFile) {
    }
    const std::uint64_t bytes = window_.offset(window_.end());
    if (const auto& damage = stream_.damage())
      notes_.add(KinetoNote::DamagedPacking, damage->byte, damage->problem);
    RankTrace trace = builder_.finish(metadata_);
    trace.rank = metadata_.rank;
    trace.complete = !ends_early_;
    trace.counts.bytes = bytes;
    trace.digest = window_.digest();
    return trace;
  }

 private:
  // --- the window ---

  void stand_at(const char* at) {
    text_.p = at;
    text_.end = window_.end();
  }

  /// More text; the cursor then stands where `keep` was.
  JsonWindow::More more(const char* keep) {
    control_.check_cancelled();
    const JsonWindow::More result = window_.more(keep);
    stand_at(window_.begin());
    return result;
  }

  [[nodiscard]] std::string_view rest() const {
    return {text_.p, static_cast<std::size_t>(text_.end - text_.p)};
  }

  /// The next byte that is no white space; 0 only at the end of the file.
  char peek() {
    while (text_.peek() == '\0' && text_.p >= text_.end) {
      if (more(text_.p) == JsonWindow::More::EndOfFile) return '\0';
    }
    return *text_.p;
  }

  /// Calls take(), which moves the cursor over a piece of text or fails, again with more text as long as it
  /// fails for lack of it. Unless it succeeds the cursor is back at the start of the piece.
  template <class Take>
  Taken take(Take take_piece) {
    const char* begin = text_.p;
    while (true) {
      text_.control_character = text_.bare_backslash = false;
      if (take_piece()) return Taken::Yes;
      const bool at_end = text_.at_end();
      text_.p = begin;
      if (!at_end) return Taken::Broken;
      switch (more(begin)) {
        case JsonWindow::More::Got:
          break;
        case JsonWindow::More::TooLarge:
          return Taken::TooLong;
        case JsonWindow::More::EndOfFile:
          return Taken::EndOfFile;
      }
      begin = text_.p;
    }
  }

  // --- the top level ---

  /// The keys and values of the top level; the cursor is behind its brace.
  void read_blocks() {
    while (true) {
      switch (peek()) {
        case '\0':
          if (text_.p < text_.end) return leave_blocks();
          if (!events_seen_) ends_early();
          return;
        case '}':
          return;
        case ',':
          ++text_.p;
          break;
        default:
          if (!read_block()) return leave_blocks();
      }
    }
  }

  /// One key and its value; false if it is not JSON.
  bool read_block() {
    const std::uint64_t at = window_.offset(text_.p);
    std::string_view key;
    bool is_events = false;
    const Taken taken = take([&] {
      if (!text_.key(key)) return false;
      const char next = text_.peek();
      if (next == '\0') return text_.fail();
      is_events = key == "traceEvents" && next == '[';
      if (is_events) return true;
      return is_kineto_metadata(key) ? read_kineto_metadata(key, text_, metadata_) : text_.skip_value();
    });
    if (taken == Taken::Yes) {
      note_tolerated(at);
      if (is_events) {
        ++text_.p;
        read_events();
      }
      return true;
    }
    if (taken == Taken::EndOfFile && !events_seen_) {
      ends_early();
      return true;  // with nothing left
    }
    notes_.add(KinetoNote::BrokenBlock, at);
    return find_block();
  }

  /// After a broken block: the next line that starts like a block, from the one behind the cursor on.
  bool find_block() {
    while (true) {
      const std::size_t line = rest().find('\n');
      if (line == std::string_view::npos) {
        if (more(text_.end) == JsonWindow::More::EndOfFile) return false;
        continue;
      }
      text_.p += line + 1;
      if (peek() != '"') continue;
      std::string_view key;
      const Taken taken = take([&] {
        const char* const begin = text_.p;
        if (!text_.key(key)) return false;
        text_.p = begin;
        return true;
      });
      if (taken == Taken::Yes && is_block(key)) return true;
      if (taken == Taken::EndOfFile) return false;
    }
  }

  static bool is_block(std::string_view key) {
    return is_kineto_metadata(key) || key == "traceEvents" || key == "traceName" ||
           key == "displayTimeUnit" || key == "schemaVersion";
  }

  /// Nothing sound follows at the top level.
  void leave_blocks() {
    if (!events_seen_) refuse();
  }

  // --- the events ---

  /// The array of events; the cursor is behind its bracket.
  void read_events() {
    events_seen_ = true;
    bool comma = false;
    std::uint64_t comma_at = 0;
    while (true) {
      switch (peek()) {
        case '{':
          comma = false;
          if (!read_event()) return;
          break;
        case ',':
          if (comma) notes_.add(KinetoNote::TrailingComma, comma_at);
          comma = true;
          comma_at = window_.offset(text_.p);
          ++text_.p;
          break;
        case ']':
          if (comma) notes_.add(KinetoNote::TrailingComma, comma_at);
          ++text_.p;
          return;
        case '\0':
          if (text_.p >= text_.end) return end_of_file_in_events();
          [[fallthrough]];
        default:
          if (!broken_event(KinetoNote::BrokenEvent)) return;
      }
    }
  }

  /// One event; false if there are no more.
  bool read_event() {
    const std::uint64_t at = window_.offset(text_.p);
    switch (take([&] { return read_kineto_event(text_, builder_.wants_flows(), event_); })) {
      case Taken::Yes:
        note_tolerated(at);
        builder_.add(event_, at);
        return true;
      case Taken::Broken:
        return broken_event(KinetoNote::BrokenEvent);
      case Taken::TooLong:
        return broken_event(KinetoNote::LongEvent);
      case Taken::EndOfFile:
        break;
    }
    // The rest of the file is one event, or a string in it has no end: then others follow inside.
    const char* const begin = text_.p;
    ++text_.p;
    if (find_event(false)) {
      notes_.add(KinetoNote::BrokenEvent, at);
      return true;
    }
    text_.p = begin;
    end_of_file_in_events();
    return false;
  }

  void note_tolerated(std::uint64_t at) {
    if (text_.control_character) notes_.add(KinetoNote::ControlCharacter, at);
    if (text_.bare_backslash) notes_.add(KinetoNote::BareBackslash, at);
  }

  /// Leaves out the event at the cursor; false if there are no more.
  bool broken_event(KinetoNote note) {
    notes_.add(note, window_.offset(text_.p));
    ++text_.p;
    if (find_event(true)) return true;
    if (!array_ended_) end_of_file_in_events();
    return false;
  }

  /// Moves the cursor on to what starts like an event, or behind the end of the array. False if there is
  /// neither, or if it is the end.
  bool find_event(bool read_on) {
    while (true) {
      const std::size_t at = rest().find_first_of("{]");
      const bool near_end = at == std::string_view::npos || rest().size() - at < kLookAround;
      if (near_end && read_on) {
        // Some text before the place stays, to see what it follows.
        const char* place = at == std::string_view::npos ? text_.end : text_.p + at;
        const auto before =
            std::min<std::size_t>(kLookAround, static_cast<std::size_t>(place - window_.begin()));
        const JsonWindow::More got = more(place - before);
        text_.p += before;
        if (got == JsonWindow::More::Got) continue;
      }
      const std::string_view left = rest();
      const std::size_t found = left.find_first_of("{]");
      if (found == std::string_view::npos) return false;
      text_.p += found;
      if (*text_.p == '{' && starts_event()) return true;
      if (*text_.p == ']' && ends_array()) {
        ++text_.p;
        array_ended_ = true;
        return false;
      }
      ++text_.p;
    }
  }

  [[nodiscard]] char before_cursor() const {
    const char* p = text_.p;
    while (p > window_.begin() && json_detail::is_space(p[-1])) --p;
    return p > window_.begin() ? p[-1] : '\0';
  }

  /// A brace before "ph", or between a comma and another key of events.
  [[nodiscard]] bool starts_event() const {
    const char before = before_cursor();
    JsonText ahead = text_;
    std::string_view key;
    if (!ahead.take('{') || !ahead.key(key)) return false;
    if (key == "ph") return before != ':';
    constexpr std::array<std::string_view, 7> kKeys = {"name", "cat", "ts", "pid", "tid", "args", "dur"};
    return (before == ',' || before == '[') && std::ranges::find(kKeys, key) != kKeys.end();
  }

  /// A bracket before the end of the top level or before one of its keys.
  [[nodiscard]] bool ends_array() const {
    JsonText ahead = text_;
    ++ahead.p;
    const char next = ahead.peek();
    if (top_level_array_) return next == '\0' && ahead.p >= ahead.end;
    if (next == '}') {
      ++ahead.p;
      return ahead.peek() == '\0' && ahead.p >= ahead.end;
    }
    std::string_view key;
    return ahead.take(',') && ahead.key(key) &&
           (is_block(key) || key == "INFO" || key == "WARNING" || key == "ERROR");
  }

  // --- ends ---

  void end_of_file_in_events() {
    // Chrome's format lets an array of events end without its bracket.
    if (top_level_array_ && text_.p >= text_.end) return;
    ends_early();
  }

  void ends_early() {
    ends_early_ = true;
    notes_.add(KinetoNote::FileEndsEarly, window_.offset(text_.end));
    text_.p = text_.end;
  }

  [[noreturn]] void refuse() const {
    throw InputError(stream_.place(), "is no PyTorch profiler trace: it holds no array of events",
                     "give the JSON file that torch.profiler's export_chrome_trace or Kineto wrote");
  }

  ByteStream& stream_;
  const RunControl& control_;
  KinetoNotes& notes_;
  JsonWindow window_;
  JsonText text_;
  KinetoMetadata metadata_;
  KinetoEvent event_;
  RankTraceBuilder builder_;
  bool top_level_array_ = false;
  bool events_seen_ = false;
  bool array_ended_ = false;
  bool ends_early_ = false;
};

}  // namespace

RankTrace read_kineto_stream(ByteStream& stream, const RunControl& control, KinetoNotes& notes,
                             const KinetoLimits& limits) {
  return KinetoReader(stream, control, notes, limits).read();
}

}  // namespace prism
