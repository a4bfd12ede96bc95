// SPDX-License-Identifier: Apache-2.0
#include "prism/model/recorded_job.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>

#include "prism/stats/random.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

using Records = std::vector<OpRecord>;

auto identity(const OpRecord& r) {
  return std::tuple(r.step, r.dp_rank, r.stage, r.type, r.seq);
}

/// Everything of a record but its line.
auto content(const OpRecord& r) {
  return std::tuple(r.rank, r.chunk, r.microbatch, r.start.count(), r.duration.count());
}

/// All records of one replica in one step, as a range of the sorted records.
struct Cell {
  int step = 0;
  int dp_rank = 0;
  std::span<const OpRecord> records;
  bool doubled = false;         ///< an op occurs twice with different times
  std::uint64_t structure = 0;  ///< hash of ops and orders
  std::uint64_t ops = 0;        ///< hash of the ops alone
};

std::string place(const Cell& cell) {
  return "step " + std::to_string(cell.step) + ", replica " + std::to_string(cell.dp_rank);
}

std::uint64_t op_hash(std::uint64_t hash, const OpRecord& r) {
  hash = mix_id(hash, static_cast<std::uint64_t>(r.stage));
  hash = mix_id(hash, static_cast<std::uint64_t>(r.type));
  return mix_id(hash, static_cast<std::uint64_t>(r.seq));
}

/// Hashes what a cell runs: which ops (with their chunks), and in which order each stage's compute chain and data-parallel
/// stream run them. Microbatch numbers are optional and judged apart.
void hash_structure(Cell& cell) {
  std::uint64_t hash = 1;
  for (const OpRecord& r : cell.records) {
    hash = mix_id(op_hash(hash, r), static_cast<std::uint64_t>(r.chunk));
  }
  cell.ops = hash;
  std::vector<const OpRecord*> chain;
  for (const OpRecord& r : cell.records) {
    if (is_compute(r.type) || is_dp_stream(r.type)) chain.push_back(&r);
  }
  std::ranges::sort(chain, {}, [](const OpRecord* r) {
    return std::tuple(r->stage, is_compute(r->type), r->start.count(), r->seq, r->type);
  });
  for (const OpRecord* r : chain) hash = op_hash(hash, *r);
  cell.structure = hash;
}

/// Sorts by identity and removes exact duplicates.
Records sorted_unique(Records records, ImportReport& report, const std::string& source) {
  std::ranges::stable_sort(records, {}, identity);
  Records unique;
  unique.reserve(records.size());
  for (const OpRecord& r : records) {
    if (!unique.empty() && identity(unique.back()) == identity(r) && content(unique.back()) == content(r)) {
      report.add(Severity::Repaired, "row removed: an exact double of another",
                 Place{source, r.line, {}}.text());
    } else {
      unique.push_back(r);
    }
  }
  return unique;
}

std::vector<Cell> split_cells(const Records& records) {
  std::vector<Cell> cells;
  for (std::size_t begin = 0; begin < records.size();) {
    std::size_t end = begin;
    Cell cell{.step = records[begin].step, .dp_rank = records[begin].dp_rank};
    while (end < records.size() && records[end].step == cell.step && records[end].dp_rank == cell.dp_rank) {
      cell.doubled = cell.doubled || (end > begin && identity(records[end]) == identity(records[end - 1]));
      ++end;
    }
    cell.records = std::span(records).subspan(begin, end - begin);
    hash_structure(cell);
    cells.push_back(cell);
    begin = end;
  }
  return cells;
}

/// The structure that most sound cells have, as one such cell. Of equals the one with more ops (a truncated
/// replica must not win over a whole one), then the earliest.
const Cell* common_structure(const std::vector<Cell>& cells) {
  std::unordered_map<std::uint64_t, std::size_t> votes;
  for (const Cell& cell : cells) {
    if (!cell.doubled) ++votes[cell.structure];
  }
  const Cell* best = nullptr;
  for (const Cell& cell : cells) {
    if (cell.doubled) continue;
    const auto rank = [&](const Cell& c) { return std::pair(votes[c.structure], c.records.size()); };
    if (best == nullptr || rank(cell) > rank(*best)) best = &cell;
  }
  return best;
}

std::string_view why_different(const Cell& cell, const Cell& common) {
  if (cell.doubled) return "step left out: an op is recorded twice with different times";
  if (cell.records.size() < common.records.size()) return "step left out: ops are missing";
  if (cell.records.size() > common.records.size()) return "step left out: it has more ops than the others";
  if (cell.ops != common.ops) return "step left out: its ops are not those of the other steps";
  return "step left out: its ops run in another order";
}

/// Replicas to keep, ascending: the most complete ones, as many as give the most complete (step, replica)
/// pairs.
std::vector<int> usable_replicas(const std::vector<Cell>& cells, const Cell& common, ImportReport& report) {
  std::map<int, std::size_t> sound_steps;       // by replica
  std::map<int, std::set<int>> sound_replicas;  // by step
  for (const Cell& cell : cells) {
    const bool sound = !cell.doubled && cell.structure == common.structure;
    sound_steps[cell.dp_rank] += sound;
    if (sound) sound_replicas[cell.step].insert(cell.dp_rank);
  }
  std::vector<int> order;
  for (const auto& [replica, count] : sound_steps) order.push_back(replica);
  std::ranges::stable_sort(order, std::greater<>(), [&](int replica) { return sound_steps[replica]; });
  // A step is complete for the first n replicas of the order up to the first one that is not sound in it.
  std::vector<std::size_t> complete(order.size() + 1, 0);
  for (const auto& [step, sound] : sound_replicas) {
    std::size_t n = 0;
    while (n < order.size() && sound.contains(order[n])) ++n;
    ++complete[n];
  }
  std::size_t best = 0;
  std::size_t best_pairs = 0;
  std::size_t steps = 0;
  for (std::size_t n = order.size(); n > 0; --n) {
    steps += complete[n];
    if (steps * n > best_pairs) {
      best = n;
      best_pairs = steps * n;
    }
  }
  for (std::size_t n = best; n < order.size() && best > 0; ++n) {
    report.add(
        Severity::DataLoss, "replica left out: incomplete in too many steps",
        "replica " + std::to_string(order[n]) + " is complete in " + std::to_string(sound_steps[order[n]]));
  }
  order.resize(best);
  std::ranges::sort(order);
  return order;
}

void check_stages(const Cell& common, const std::string& source) {
  std::set<int> stages;
  for (const OpRecord& r : common.records) stages.insert(r.stage);
  int expected = 0;
  for (const int stage : stages) {
    if (stage != expected) {
      throw InputError({source, {}, {}},
                       "no row of pipeline stage " + std::to_string(expected) + ", although stage " +
                           std::to_string(stage) + " is there",
                       "add the missing stage's rank to the trace");
    }
    ++expected;
  }
}

void check_has_compute(const Cell& common, const std::string& source) {
  if (std::ranges::any_of(common.records, [](const OpRecord& r) { return is_compute(r.type); })) return;
  throw InputError({source, {}, {}}, "no compute op is recorded",
                   "the trace needs forward-compute and backward-compute rows");
}

/// A whole number that may be beyond 64 bits.
std::string count_text(double count) {
  char text[64];
  std::snprintf(text, sizeof text, "%.0f", count);
  return text;
}

/// Tensor- and context-parallel sizes: only the metadata knows them. Left out if they make more ranks than there can be.
void set_unrecorded_axes(Mesh& mesh, const JobMeta& meta, ImportReport& report) {
  constexpr double kMostRanks = 1 << 24;
  const int tp = meta.tp_size.value_or(1);
  const int cp = meta.dsp_size.value_or(1);
  if (1.0 * tp * cp * mesh.size(Axis::Dp) * mesh.size(Axis::Pp) > kMostRanks) {
    report.add(Severity::DataLoss, "metadata sizes left out: they make more ranks than there can be",
               meta.source);
    return;
  }
  mesh.size(Axis::Tp) = tp;
  mesh.size(Axis::Cp) = cp;
}

void check_meta(const JobMeta& meta, int replicas, int stages, int chunks, ImportReport& report) {
  const auto doubt = [&](std::string_view reason, const std::string& text) {
    report.add(Severity::Info, reason, meta.source + ": " + text);
  };
  const auto differs = [&](const char* key, const std::optional<int>& declared, int found) {
    if (declared && *declared != found) {
      doubt(
          "metadata disagrees with the trace, which is used",
          std::string(key) + " is " + std::to_string(*declared) + ", the trace has " + std::to_string(found));
    }
  };
  differs("dp_size", meta.dp_size, replicas);
  differs("pp_size", meta.pp_size, stages);
  differs("vpp_size", meta.vpp_size, chunks);
  if (meta.world_size) {
    const double product = 1.0 * meta.dp_size.value_or(replicas) * meta.pp_size.value_or(stages) *
                           meta.tp_size.value_or(1) * meta.dsp_size.value_or(1);
    if (product != *meta.world_size) {
      doubt("metadata contradicts itself", "world_size is " + std::to_string(*meta.world_size) +
                                               ", the product of the sizes is " + count_text(product));
    }
  }
}

/// First start of each step's cells ([step * replicas + replica]); times are counted from it, whatever the file's origin.
std::vector<Nanos> first_starts(const std::vector<const Cell*>& kept, std::size_t replicas) {
  std::vector<Nanos> first(kept.size() / replicas, Nanos::max());
  for (std::size_t cell = 0; cell < kept.size(); ++cell) {
    for (const OpRecord& r : kept[cell]->records)
      first[cell / replicas] = std::min(first[cell / replicas], r.start);
  }
  return first;
}

/// Keeps microbatch numbers only if a sample may reorder by them: each compute op has the same one in all cells, and each stage's
/// forward, backward and chunk hold the same M numbers, 0..M-1 after taking off the smallest.
void judge_microbatches(RecordedJob& job, const std::vector<const Cell*>& kept, ImportReport& report) {
  std::map<std::tuple<OpType, int, int>, std::set<int>> of_class;
  std::map<std::tuple<OpType, int, int>, std::size_t> ops_of_class;
  int smallest = std::numeric_limits<int>::max();
  bool known = true;
  for (std::size_t i = 0; i < job.ops.size(); ++i) {
    const TemplateOp& op = job.ops[OpId(i)];
    if (!is_compute(op.type)) continue;
    for (const Cell* cell : kept) known = known && cell->records[i].microbatch == op.microbatch;
    of_class[{op.type, op.stage, op.chunk}].insert(op.microbatch);
    ++ops_of_class[{op.type, op.stage, op.chunk}];
    smallest = std::min(smallest, op.microbatch);
  }
  const std::set<int>& first = of_class.begin()->second;
  known = known && smallest >= 0 && *first.rbegin() - smallest + 1 == static_cast<int>(first.size());
  for (const auto& [key, numbers] : of_class)
    known = known && numbers == first && ops_of_class[key] == first.size();
  if (!known) {
    report.add(Severity::Info, "microbatches are not numbered alike everywhere; samples keep their order",
               job.source);
  }
  for (TemplateOp& op : job.ops) {
    if (is_compute(op.type)) op.microbatch = known ? op.microbatch - smallest : -1;
  }
}

/// Which of the usual rank orders the recorded global ranks follow: stages outermost (Megatron's default) or
/// replicas. If they follow neither (replicas left out, wrong metadata), the usual one stays.
void infer_rank_order(RecordedJob& job) {
  const auto stages = static_cast<std::size_t>(job.stages());
  for (const std::string_view text : {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"}) {
    Mesh mesh = job.mesh;
    mesh.order = *Mesh::parse_order(text);
    bool fits = true;
    for (std::size_t i = 0; i < job.ranks.size() && fits; ++i) {
      fits = job.ranks[i] < mesh.world_size() &&
             mesh.coordinate(job.ranks[i], Axis::Dp) == static_cast<int>(i / stages) &&
             mesh.coordinate(job.ranks[i], Axis::Pp) == static_cast<int>(i % stages);
    }
    if (!fits) continue;
    job.mesh = mesh;
    return;
  }
}

/// Global rank of the worker that recorded each (replica, stage).
void fill_ranks(RecordedJob& job, const std::vector<const Cell*>& kept, ImportReport& report) {
  job.ranks.assign(job.replicas() * static_cast<std::size_t>(job.stages()), -1);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::size_t replica = i % job.replicas();
    for (const OpRecord& r : kept[i]->records) {
      int& rank =
          job.ranks[replica * static_cast<std::size_t>(job.stages()) + static_cast<std::size_t>(r.stage)];
      if (rank == -1) rank = r.rank;
      if (rank != r.rank) {
        report.add(Severity::Info, "several global ranks recorded one (replica, stage); the first names it",
                   place(*kept[i]) + ", stage " + std::to_string(r.stage));
      }
    }
  }
}

}  // namespace

std::string op_text(const TemplateOp& op) {
  return std::string(op_type_name(op.type)) + " " + std::to_string(op.seq) + " of stage " +
         std::to_string(op.stage);
}

std::vector<double> RecordedJob::first_starts_ns() const {
  std::vector<double> first(step_count(), 0.0);
  for (std::size_t k = 0; k < step_count(); ++k) {
    first[k] = start(OpId(0), k, 0);
    for (std::size_t op = 0; op < ops.size(); ++op) {
      for (std::size_t d = 0; d < replicas(); ++d) first[k] = std::min(first[k], start(OpId(op), k, d));
    }
  }
  return first;
}

std::vector<double> RecordedJob::step_times_ns() const {
  std::vector<double> times = first_starts_ns();
  for (std::size_t k = 0; k < step_count(); ++k) {
    double last = times[k];
    for (std::size_t op = 0; op < ops.size(); ++op) {
      for (std::size_t d = 0; d < replicas(); ++d) last = std::max(last, end(OpId(op), k, d));
    }
    times[k] = last - times[k];
  }
  return times;
}

RecordedJob align(const OpTimeline& timeline, ImportReport& report) {
  if (timeline.records.empty()) {
    throw InputError({timeline.source, {}, {}}, "the timeline has no records",
                     "check that ops were recorded");
  }
  const Records records = sorted_unique(timeline.records, report, timeline.source);
  const std::vector<Cell> cells = split_cells(records);
  const Cell* common = common_structure(cells);
  std::map<int, std::vector<const Cell*>> by_step;
  for (const Cell& cell : cells) by_step[cell.step].push_back(&cell);
  if (common == nullptr) {
    throw InputError({timeline.source, {}, {}},
                     "in every step some op is recorded twice with different times",
                     "merge each rank's records once only");
  }

  check_stages(*common, timeline.source);
  check_has_compute(*common, timeline.source);
  const std::vector<int> replicas = usable_replicas(cells, *common, report);
  const auto keeps = [&](int replica) { return std::ranges::binary_search(replicas, replica); };
  RecordedJob job;
  std::vector<const Cell*> kept;  // [step * D + replica]
  for (const auto& [step, in_step] : by_step) {
    std::vector<const Cell*> sound;
    const Cell* faulty = nullptr;
    for (const Cell* cell : in_step) {
      if (!keeps(cell->dp_rank)) continue;
      if (cell->doubled || cell->structure != common->structure) {
        faulty = cell;
      } else {
        sound.push_back(cell);
      }
    }
    if (faulty != nullptr) {
      report.add(Severity::DataLoss, why_different(*faulty, *common), place(*faulty));
    } else if (sound.size() < replicas.size()) {
      report.add(Severity::DataLoss, "step left out: a replica is absent", "step " + std::to_string(step));
    } else {
      job.steps.push_back(step);
      kept.insert(kept.end(), sound.begin(), sound.end());
    }
  }
  if (job.steps.empty() || replicas.empty()) {
    throw InputError({timeline.source, {}, {}}, "no step is complete in all replicas",
                     "the trace needs every op of every rank in at least one step");
  }

  job.source = timeline.source;
  job.trial_name = timeline.meta.trial_name.value_or("");
  job.mesh.size(Axis::Dp) = static_cast<int>(replicas.size());
  job.mesh.size(Axis::Pp) = common->records.back().stage + 1;
  set_unrecorded_axes(job.mesh, timeline.meta, report);
  int chunks = 1;
  for (const OpRecord& r : common->records) chunks = std::max(chunks, r.chunk + 1);
  check_meta(timeline.meta, static_cast<int>(replicas.size()), job.stages(), chunks, report);
  fill_ranks(job, kept, report);
  infer_rank_order(job);
  for (const OpRecord& r : common->records) {
    job.ops.push_back(
        {.type = r.type, .stage = r.stage, .seq = r.seq, .chunk = r.chunk, .microbatch = r.microbatch});
  }
  judge_microbatches(job, kept, report);
  job.start_ns.resize(job.ops.size() * kept.size());
  job.end_ns.resize(job.start_ns.size());
  const std::vector<Nanos> origins = first_starts(kept, job.replicas());
  for (std::size_t cell = 0; cell < kept.size(); ++cell) {
    for (std::size_t op = 0; op < job.ops.size(); ++op) {
      const OpRecord& r = kept[cell]->records[op];
      const Nanos start = r.start - origins[cell / job.replicas()];
      job.start_ns[op * kept.size() + cell] = static_cast<double>(start.count());
      job.end_ns[op * kept.size() + cell] = static_cast<double>((start + r.duration).count());
    }
  }
  return job;
}

}  // namespace prism
