// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/kineto_notes.hpp"

#include <algorithm>
#include <utility>

#include "prism/trace/error.hpp"

namespace prism {

namespace {

struct Meaning {
  Severity severity;
  std::string_view reason;
};

// In the order of KinetoNote.
constexpr std::array<Meaning, static_cast<std::size_t>(KinetoNote::kCount)> kMeanings = {{
    {Severity::DataLoss, "compressed data is damaged: what could be unpacked before that is used"},
    {Severity::DataLoss, "file ends early: the whole events before that are used"},
    {Severity::DataLoss, "event left out: it is not JSON"},
    {Severity::DataLoss, "event left out: it is longer than 64 MiB"},
    {Severity::Repaired, "block beside the events ignored: it is not JSON"},
    {Severity::Repaired, "comma without an event behind it ignored"},
    {Severity::Repaired, "event with a raw control character in a string"},
    {Severity::Repaired, "event with a backslash that begins no escape: taken as itself"},
    {Severity::Repaired, "event whose name is not UTF-8: bad bytes replaced"},
    {Severity::Repaired, "event repeats a key: the last value counts"},
    {Severity::DataLoss, "event left out: no usable start time"},
    {Severity::DataLoss, "event left out: no usable duration"},
    {Severity::DataLoss, "GPU op set aside: its start time was lost (ts 0)"},
    {Severity::DataLoss, "GPU op set aside: its duration was lost (absent, zero or negative)"},
    {Severity::DataLoss, "GPU op set aside: it is longer than the traced time and a minute"},
    {Severity::Info, "GPU op of zero length kept: the trace has whole microseconds"},
    {Severity::Repaired, "GPU op cut where the next on its stream starts: its duration is corrupt"},
    {Severity::Info, "begin and end event joined"},
    {Severity::DataLoss, "event left out: begin without end"},
    {Severity::DataLoss, "event left out: end without begin"},
    {Severity::Info, "launch taken from a flow event: no correlation recorded"},
    {Severity::Info, "GPU op without a usable name"},
    {Severity::DataLoss, "synchronisation record left out: of unknown kind"},
    {Severity::DataLoss, "MTIA device event left out: only GPU work is read"},
    {Severity::Info, "base time ignored: times are absolute without it"},
    {Severity::Info, "times are relative: ranks can only be aligned by their collectives"},
    {Severity::Info, "rank taken from the file name"},
    {Severity::Repaired, "rank not recorded: 0 assumed"},
    {Severity::Info, "no GPU work in the trace"},
}};

}  // namespace

void KinetoNotes::add(KinetoNote note, std::optional<std::uint64_t> byte, std::string_view detail) {
  const auto index = static_cast<std::size_t>(note);
  if (strict_ && note <= KinetoNote::RepeatedKey) {
    std::string problem = "not sound: " + std::string(kMeanings[index].reason);
    if (!detail.empty()) problem += std::string(" (") + std::string(detail) + ")";
    throw InputError({file_, {}, byte}, problem, "write the trace again, or read it without --strict");
  }
  Tally& tally = tallies_[index];
  if (tally.count < tally.places.size()) {
    std::string& place = tally.places[tally.count];
    place = Place{file_, {}, byte}.text();
    if (!detail.empty()) place += std::string(": ") + std::string(detail);
  }
  ++tally.count;
}

void KinetoNotes::put_into(ImportReport& report) const {
  for (std::size_t i = 0; i < tallies_.size(); ++i) {
    const Tally& tally = tallies_[i];
    if (tally.count == 0) continue;
    ImportEntry entry{kMeanings[i].severity, std::string(kMeanings[i].reason), tally.count, {}};
    for (std::size_t p = 0; p < std::min(tally.count, tally.places.size()); ++p) {
      entry.places.push_back(tally.places[p]);
    }
    report.add(std::move(entry));
  }
}

}  // namespace prism
