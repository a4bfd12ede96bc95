// SPDX-License-Identifier: Apache-2.0
#include "prism/model/anonymise.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace prism {

namespace {

/// Whether a text is one that prism itself makes of an op: an op type name, then numbers and words such as
/// "of stage".
bool is_about_op_types(std::string_view text) {
  constexpr std::array<std::string_view, 5> kWords = {"of", "stage", "chunk", "replica", "->"};
  bool first = true;
  while (true) {
    const std::string_view word = text.substr(0, text.find(' '));
    const bool number = !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
    const bool known = op_type_from_name(word).has_value();
    if (!known && (first || (!number && std::ranges::find(kWords, word) == kWords.end()))) return false;
    if (word.size() == text.size()) return true;
    text.remove_prefix(word.size() + 1);
    first = false;
  }
}

/// Gives equal texts equal new names.
class Renamer {
 public:
  explicit Renamer(std::string noun) : noun_(std::move(noun)) {}

  std::string operator()(std::string_view text) {
    std::string prefix;
    for (const std::string_view known : {"launch of ", "join of "}) {
      if (!text.starts_with(known)) continue;
      prefix += known;
      text.remove_prefix(known.size());
    }
    if (is_about_op_types(text)) return prefix.append(text);
    const auto place = names_.try_emplace(std::string(text), names_.size() + 1).first;
    return prefix + noun_ + " " + std::to_string(place->second);
  }

 private:
  std::string noun_;
  std::unordered_map<std::string, std::size_t> names_;
};

/// "A -> B" is about two ops.
std::string renamed_inference(std::string_view what, Renamer& op_name) {
  constexpr std::string_view kArrow = " -> ";
  const std::size_t arrow = what.find(kArrow);
  if (arrow == std::string_view::npos) return op_name(what);
  return op_name(what.substr(0, arrow)) + std::string(kArrow) + op_name(what.substr(arrow + kArrow.size()));
}

void anonymise_inferences(std::vector<Inference>& inferences, Renamer& op_name) {
  constexpr std::array<std::string_view, 3> kKinds = {"posting edge", "barrier over replicas",
                                                      "wait for all stages"};
  for (Inference& inference : inferences) {
    if (std::ranges::find(kKinds, inference.kind) == kKinds.end()) inference.kind = "inference";
    inference.what = renamed_inference(inference.what, op_name);
  }
}

void renumber_ranks(std::vector<int>& ranks) {
  const std::set<int> used(ranks.begin(), ranks.end());
  std::map<int, int> number;
  int next = 0;
  for (const int rank : used) number[rank] = rank < 0 ? rank : next++;
  for (int& rank : ranks) rank = number[rank];
}

ImportReport without_places(const ImportReport& report) {
  ImportReport result;
  for (ImportEntry entry : report.entries()) {
    entry.places.clear();
    result.add(std::move(entry));
  }
  return result;
}

}  // namespace

StepModel anonymous_copy(StepModel model) {
  constexpr const char* kSource = "anonymised";
  model.source = kSource;
  model.digest.clear();
  Renamer op_name("op");
  for (Node& node : model.nodes) node.name = op_name(node.name);
  Renamer pool_name("pool");
  for (DurationClass& c : model.pools.classes) c.key = pool_name(c.key);
  anonymise_inferences(model.inferences, op_name);
  model.report = without_places(model.report);
  if (model.recording != nullptr) {
    auto recording = std::make_shared<RecordedJob>(*model.recording);
    recording->source = kSource;
    recording->trial_name.clear();
    renumber_ranks(recording->ranks);
    model.recording = std::move(recording);
  }
  return model;
}

}  // namespace prism
