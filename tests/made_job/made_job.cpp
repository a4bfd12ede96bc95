// SPDX-License-Identifier: Apache-2.0
#include "tests/made_job/made_job.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <queue>
#include <stdexcept>
#include <tuple>

#include "prism/stats/random.hpp"
#include "tests/made_job/noise.hpp"

namespace prism {

namespace {

// A send or receive row without a partner moves nothing and returns at once.
constexpr double kIdleTransferS = 5e-6;

using OpIndex = std::uint32_t;

/// One op of one rank, the same in every step.
struct PlannedOp {
  OpType type = OpType::Gc;
  int dp_rank = 0;
  int stage = 0;
  int seq = 0;
  int chunk = -1;
  int microbatch = -1;
  std::vector<OpIndex> after;          // ops that must have ended before it is posted
  std::optional<std::size_t> meeting;  // of communication
};

/// Ops that transfer together, once all are posted.
using Meeting = std::vector<OpIndex>;

struct ComputeStep {
  bool forward = true;
  int chunk = 0;
  int microbatch = 0;
};

/// Position k of the interleaved schedule: groups of pp microbatches visit the chunks one after the other.
ComputeStep interleaved_position(const MadeJobSpec& spec, int k, bool forward) {
  const int round = spec.pp * spec.chunks;
  const int chunk = k % round / spec.pp;
  return {forward, forward ? chunk : spec.chunks - 1 - chunk, k / round * spec.pp + k % spec.pp};
}

/// The order of a rank's compute.
std::vector<ComputeStep> compute_order(const MadeJobSpec& spec, int stage) {
  const int total = spec.microbatches * spec.chunks;
  const int stages_after = spec.pp - 1 - stage;
  int warm_up = total;
  if (spec.schedule == PipelineSchedule::OneFOneB) warm_up = std::min(total, stages_after);
  if (spec.schedule == PipelineSchedule::Interleaved) {
    warm_up = std::min(total, 2 * stages_after + (spec.chunks - 1) * spec.pp);
  }
  const auto at = [&](int k, bool forward) {
    if (spec.schedule == PipelineSchedule::Interleaved) return interleaved_position(spec, k, forward);
    const bool reversed = spec.schedule == PipelineSchedule::GPipe && !forward;
    return ComputeStep{forward, 0, reversed ? total - 1 - k : k};
  };
  std::vector<ComputeStep> order;
  for (int k = 0; k < warm_up; ++k) order.push_back(at(k, true));
  for (int k = 0; k < total; ++k) {
    if (k + warm_up < total) order.push_back(at(k + warm_up, true));
    order.push_back(at(k, false));
  }
  return order;
}

/// What every rank does in a step, and what waits for what.
class Plan {
 public:
  explicit Plan(const MadeJobSpec& spec) : spec_(spec) {
    for (int d = 0; d < spec.dp; ++d) {
      for (int stage = 0; stage < spec.pp; ++stage) RankPlanner(*this, d, stage).run();
    }
    if (!spec.loss_barrier) return;
    for (const OpIndex op : loss_tails_) {
      for (const OpIndex end : loss_ends_) ops[op].after.push_back(end);
    }
  }

  std::vector<PlannedOp> ops;
  std::vector<Meeting> meetings;

 private:
  /// Type, replica (-1: joins all), place along the pipeline (-1: joins all), number.
  using MeetingKey = std::tuple<OpType, int, int, int>;

  class RankPlanner {
   public:
    RankPlanner(Plan& plan, int dp_rank, int stage)
        : plan_(plan), spec_(plan.spec_), dp_rank_(dp_rank), stage_(stage), gathers_(count(spec_.chunks)) {}

    void run() {
      if (has_dp_ops()) {
        for (int chunk = 0; chunk < spec_.chunks; ++chunk) {
          gathers_[count(chunk)] = join(add_dp(OpType::ParamsAllGather, chunk), -1, stage_, chunk);
        }
      }
      const std::vector<ComputeStep> order = compute_order(spec_, stage_);
      std::vector<int> backwards_left(count(spec_.chunks), spec_.microbatches);
      for (const ComputeStep& step : order) {
        add_compute(step);
        if (!overlapped() || step.forward || --backwards_left[count(step.chunk)] > 0) continue;
        const OpIndex reduce = add_dp(OpType::GradsReduceScatter, step.chunk);
        plan_.ops[reduce].after.push_back(*last_compute_);
        join(reduce, -1, stage_, step.chunk);
      }
      add_tail();
    }

   private:
    static std::size_t count(int n) { return static_cast<std::size_t>(n); }
    bool has_dp_ops() const { return spec_.dp * spec_.dsp > 1; }
    bool overlapped() const { return has_dp_ops() && spec_.overlapped_reduction; }

    OpIndex add(OpType type, std::vector<OpIndex> after, int chunk = -1, int microbatch = -1) {
      int& next = next_seq_[static_cast<std::size_t>(type)];
      plan_.ops.push_back({type, dp_rank_, stage_, next++, chunk, microbatch, std::move(after), {}});
      return static_cast<OpIndex>(plan_.ops.size() - 1);
    }

    /// Adds an op that also waits for the previous one of its stream.
    OpIndex add_to_stream(std::optional<OpIndex>& last, OpType type, std::vector<OpIndex> after,
                          int chunk = -1) {
      if (last) after.push_back(*last);
      last = add(type, std::move(after), chunk);
      return *last;
    }
    OpIndex add_dp(OpType type, int chunk) { return add_to_stream(last_dp_, type, {}, chunk); }

    OpIndex join(OpIndex op, int replica, int place, int number) {
      plan_.join(op, {plan_.ops[op].type, replica, place, number});
      return op;
    }

    /// A microbatch's transfer between model chunk `from` and its neighbour; both sides find it by the
    /// sender's type.
    void join_pair(OpIndex op, OpType send_type, int from, int microbatch) {
      plan_.join(op, {send_type, dp_rank_, from, microbatch});
    }

    void add_compute(const ComputeStep& step) {
      const int model_chunk = step.chunk * spec_.pp + stage_;
      const int model_chunks = spec_.chunks * spec_.pp;
      const int towards = step.forward ? 1 : -1;
      const auto exists = [&](int chunk) { return chunk >= 0 && chunk < model_chunks; };
      const OpType send_type = step.forward ? OpType::ForwardSend : OpType::BackwardSend;
      const OpType recv_type = step.forward ? OpType::ForwardRecv : OpType::BackwardRecv;
      // With one chunk a rank at the pipeline's end makes no call; with several every call leaves a row.
      const bool receives = exists(model_chunk - towards) || spec_.chunks > 1;
      const bool sends = exists(model_chunk + towards) || spec_.chunks > 1;

      std::vector<OpIndex> after;
      if (last_compute_) after.push_back(*last_compute_);
      auto& gather = gathers_[count(step.chunk)];
      if (step.forward && gather) {
        after.push_back(*gather);
        gather.reset();  // only the chunk's first forward has to wait
      }
      if (receives) {
        // Posted by the thread that runs the compute, so after the op before.
        const OpIndex recv =
            add_to_stream(last_transfer_[static_cast<std::size_t>(recv_type)], recv_type, after);
        join_pair(recv, send_type, model_chunk - towards, step.microbatch);
        after.push_back(recv);
      }
      last_compute_ = add(step.forward ? OpType::ForwardCompute : OpType::BackwardCompute, std::move(after),
                          step.chunk, step.microbatch);
      if (sends) {
        const OpIndex send =
            add_to_stream(last_transfer_[static_cast<std::size_t>(send_type)], send_type, {*last_compute_});
        join_pair(send, send_type, model_chunk, step.microbatch);
      }
    }

    void add_tail() {
      const bool at_end = spec_.pp > 1 && (stage_ == 0 || stage_ == spec_.pp - 1);
      OpIndex last = add(OpType::Gc, {*last_compute_});
      std::vector<OpIndex> before{last};
      if (overlapped()) before.push_back(*last_dp_);
      if (stage_ == spec_.pp - 1) plan_.loss_ends_.push_back(last);
      last = add(OpType::LayernormGradsAllReduce, std::move(before));
      if (stage_ == spec_.pp - 1) plan_.loss_tails_.push_back(last);
      if (at_end) last = join(add(OpType::EmbeddingGradsAllReduce, {last}), dp_rank_, -1, 0);
      if (overlapped()) {
        last = join(add(OpType::SeparateGradsAllReduce, {last}), -1, stage_, 0);
      } else if (has_dp_ops()) {
        for (int chunk = 0; chunk < spec_.chunks; ++chunk) {
          const OpIndex reduce = add_dp(OpType::GradsReduceScatter, chunk);
          plan_.ops[reduce].after.push_back(last);
          last = join(reduce, -1, stage_, chunk);
        }
      }
      last = join(add(OpType::OptimizerClipMainGrad, {last}), -1, -1, 0);
      add(OpType::Optimizer, {last});
    }

    Plan& plan_;
    const MadeJobSpec& spec_;
    int dp_rank_;
    int stage_;
    std::vector<std::optional<OpIndex>> gathers_;  // by chunk, until its first forward
    std::optional<OpIndex> last_compute_;
    std::optional<OpIndex> last_dp_;
    std::array<std::optional<OpIndex>, kOpTypeCount> last_transfer_;  // by type of send or receive
    std::array<int, kOpTypeCount> next_seq_{};
  };

  void join(OpIndex op, const MeetingKey& key) {
    const auto [known, is_new] = meeting_of_.try_emplace(key, meetings.size());
    if (is_new) meetings.emplace_back();
    meetings[known->second].push_back(op);
    ops[op].meeting = known->second;
  }

  const MadeJobSpec& spec_;
  std::map<MeetingKey, std::size_t> meeting_of_;
  std::vector<OpIndex> loss_ends_;
  std::vector<OpIndex> loss_tails_;
};

/// What random numbers are for.
enum class Use : std::uint64_t { Step, Rank, Content, Residual, Transfer, Jitter, Delay };

/// Work and launch delays of one step.
class StepDraw {
 public:
  StepDraw(const MadeJobSpec& spec, const Plan& plan, std::size_t step)
      : spec_(spec), plan_(plan), noise_(spec.seed), step_(step) {}

  /// Duration of an op that runs locally.
  double local_s(const PlannedOp& op) const {
    using enum Use;
    const std::uint64_t id = op_id(op);
    if (!is_compute(op.type))
      return local_mean_s(op.type) * noise_.factor(spec_.other_cv, Residual, id, op.dp_rank, step_);
    double seconds = (op.type == OpType::ForwardCompute ? spec_.forward_s : spec_.backward_s) / spec_.chunks;
    if (op.stage == spec_.pp - 1) seconds *= spec_.last_stage_factor;
    const auto& slow = spec_.slow_rank;
    if (slow && slow->dp_rank == op.dp_rank && slow->stage == op.stage) seconds *= slow->factor;
    seconds *= noise_.factor(spec_.step_sd, Step, 0, 0, step_);
    seconds *= noise_.factor(spec_.rank_sd, Rank, static_cast<std::uint64_t>(op.stage), op.dp_rank, 0);
    seconds *= noise_.factor(spec_.content_sd, Content, static_cast<std::uint64_t>(op.microbatch), op.dp_rank,
                             step_);
    return seconds * noise_.factor(spec_.residual_sd, Residual, id, op.dp_rank, step_);
  }

  /// Time from the moment all members are there to this member's end.
  double transfer_s(const PlannedOp& op) const {
    using enum Use;
    const std::size_t meeting = *op.meeting;
    const bool pair = is_send(op.type) || is_recv(op.type);
    if (pair && plan_.meetings[meeting].size() == 1) return kIdleTransferS;
    const double common =
        transfer_mean_s(op.type) * noise_.factor(spec_.other_cv, Transfer, meeting, 0, step_);
    return common + noise_.exponential(spec_.transfer_jitter_s, Jitter, op_id(op), op.dp_rank, step_);
  }

  double delay_s(const PlannedOp& op) const {
    double mean = op.after.empty() ? spec_.start_delay_s : 0;
    if (op.seq == 0 && op.type == OpType::ForwardCompute) mean += spec_.forward_delay_s;
    if (op.seq == 0 && op.type == OpType::GradsReduceScatter) mean += spec_.reduce_delay_s;
    if (mean == 0) return 0;
    return mean * noise_.factor(spec_.delay_cv, Use::Delay, op_id(op), op.dp_rank, step_);
  }

 private:
  static std::uint64_t op_id(const PlannedOp& op) {
    return mix_id(mix_id(static_cast<std::uint64_t>(op.type), static_cast<std::uint64_t>(op.stage)),
                  static_cast<std::uint64_t>(op.seq));
  }

  double local_mean_s(OpType type) const {
    if (type == OpType::LayernormGradsAllReduce) return spec_.layernorm_s;
    return type == OpType::Optimizer ? spec_.optimizer_s : 0;  // gc is recorded as a mark without length
  }

  double transfer_mean_s(OpType type) const {
    switch (type) {
      case OpType::ParamsAllGather:
        return spec_.allgather_s;
      case OpType::GradsReduceScatter:
        return spec_.reducescatter_s;
      case OpType::SeparateGradsAllReduce:
        return spec_.reducescatter_s / 10;  // the few parameters outside the buckets
      case OpType::EmbeddingGradsAllReduce:
        return spec_.embedding_s;
      case OpType::OptimizerClipMainGrad:
        return spec_.clip_s;
      default:
        return spec_.p2p_s;
    }
  }

  const MadeJobSpec& spec_;
  const Plan& plan_;
  Noise<Use> noise_;
  std::size_t step_;
};

struct RunOp {
  double start_s = 0;  // when its rank posted it
  double end_s = 0;
  double work_s = 0;
};

/// Runs one step from event to event: an op is posted when the last op it waits for has ended (plus its
/// launch delay), a local op ends after its duration, a transfer when the last member was posted plus its
/// length.
class StepRun {
 public:
  StepRun(const Plan& plan, const StepDraw& draw) : plan_(plan), draw_(draw), ran_(plan.ops.size()) {
    waiting_for_.resize(plan.ops.size());
    followers_.resize(plan.ops.size());
    absent_.resize(plan.meetings.size());
    for (std::size_t m = 0; m < plan.meetings.size(); ++m) absent_[m] = plan.meetings[m].size();
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
      waiting_for_[i] = plan.ops[i].after.size();
      for (const OpIndex before : plan.ops[i].after) followers_[before].push_back(static_cast<OpIndex>(i));
    }
  }

  std::vector<RunOp> run() {
    for (std::size_t i = 0; i < plan_.ops.size(); ++i) {
      if (waiting_for_[i] == 0) schedule_post(static_cast<OpIndex>(i), 0);
    }
    std::size_t ended = 0;
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.is_end) {
        ++ended;
        for (const OpIndex next : followers_[event.op]) {
          if (--waiting_for_[next] == 0) schedule_post(next, event.time_s);
        }
      } else {
        post(event.op, event.time_s);
      }
    }
    if (ended != plan_.ops.size())
      throw std::invalid_argument("made job: its ranks wait for each other forever");
    return std::move(ran_);
  }

 private:
  struct Event {
    double time_s = 0;
    OpIndex op = 0;
    bool is_end = false;
    bool operator>(const Event& other) const {
      return std::tie(time_s, op, is_end) > std::tie(other.time_s, other.op, other.is_end);
    }
  };

  void schedule_post(OpIndex op, double ready_s) {
    events_.push({ready_s + draw_.delay_s(plan_.ops[op]), op, false});
  }

  void post(OpIndex op, double now_s) {
    ran_[op].start_s = now_s;
    const PlannedOp& planned = plan_.ops[op];
    if (!planned.meeting) {
      end_after(op, now_s, draw_.local_s(planned));
    } else if (--absent_[*planned.meeting] == 0) {
      for (const OpIndex member : plan_.meetings[*planned.meeting]) {
        end_after(member, now_s, draw_.transfer_s(plan_.ops[member]));
      }
    }
  }

  void end_after(OpIndex op, double from_s, double work_s) {
    ran_[op].work_s = work_s;
    ran_[op].end_s = from_s + work_s;
    events_.push({ran_[op].end_s, op, true});
  }

  const Plan& plan_;
  const StepDraw& draw_;
  std::vector<RunOp> ran_;
  std::vector<std::size_t> waiting_for_;  // ops not yet ended
  std::vector<std::vector<OpIndex>> followers_;
  std::vector<std::size_t> absent_;  // members of each meeting not yet posted
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

std::string seconds_text(double seconds) {
  std::array<char, 64> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(seconds),
                                    std::chars_format::fixed);
  return {text.data(), result.ptr};
}

/// As it comes back from a file: a 32-bit float, as its shortest decimal, in whole nanoseconds.
Nanos recorded(double seconds) {
  const std::string text = seconds_text(seconds);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return Nanos(std::llround(value * kNanosPerSecond));
}

int global_rank(const MadeJobSpec& spec, int dp_rank, int stage) {
  return (stage * spec.dp + dp_rank) * spec.tp * spec.dsp;
}

int step_number(const MadeJobSpec& spec, int index) {
  const int per_window = (spec.steps + spec.windows - 1) / spec.windows;
  return spec.first_step + index + index / per_window * spec.window_hole;
}

void check(const MadeJobSpec& spec) {
  const auto demand = [](bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(std::string("made job: ") + what);
  };
  demand(std::min({spec.dp, spec.pp, spec.tp, spec.dsp, spec.microbatches, spec.chunks, spec.steps,
                   spec.windows}) > 0,
         "sizes must be at least 1");
  const bool interleaved = spec.schedule == PipelineSchedule::Interleaved;
  demand(interleaved == (spec.chunks > 1), "several chunks and the interleaved schedule need each other");
  demand(!interleaved || spec.microbatches % spec.pp == 0,
         "interleaved: microbatches must be a multiple of pp");
}

}  // namespace

MadeJob make_job(const MadeJobSpec& spec) {
  check(spec);
  const Plan plan(spec);
  // Rows of a step are ordered by rank, name of the type, seq.
  std::vector<OpIndex> order(plan.ops.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<OpIndex>(i);
  const auto rank_of = [&](const PlannedOp& op) { return global_rank(spec, op.dp_rank, op.stage); };
  std::ranges::sort(order, {}, [&](OpIndex i) {
    const PlannedOp& op = plan.ops[i];
    return std::tuple(rank_of(op), op_type_name(op.type), op.seq);
  });

  MadeJob job;
  job.timeline.source = spec.name;
  job.timeline.meta = {.source = spec.name + " (metadata)",
                       .trial_name = spec.name,
                       .dp_size = spec.dp,
                       .pp_size = spec.pp,
                       .tp_size = spec.tp,
                       .dsp_size = spec.dsp,
                       .vpp_size = spec.chunks,
                       .world_size = spec.dp * spec.pp * spec.tp * spec.dsp};
  for (int k = 0; k < spec.steps; ++k) {
    const StepDraw draw(spec, plan, static_cast<std::size_t>(k));
    const std::vector<RunOp> ran = StepRun(plan, draw).run();
    std::vector<double> shown_s(ran.size());  // start by the rank's own clock
    for (std::size_t i = 0; i < ran.size(); ++i) {
      const auto offset = spec.clock_offset_s.find(rank_of(plan.ops[i]));
      shown_s[i] = ran[i].start_s + (offset == spec.clock_offset_s.end() ? 0 : offset->second);
    }
    const double zero_s = *std::ranges::min_element(shown_s);
    for (const OpIndex i : order) {
      const PlannedOp& op = plan.ops[i];
      job.timeline.records.push_back({.dp_rank = op.dp_rank,
                                      .stage = op.stage,
                                      .rank = rank_of(op),
                                      .step = step_number(spec, k),
                                      .type = op.type,
                                      .seq = op.seq,
                                      .chunk = op.chunk,
                                      .microbatch = op.microbatch,
                                      .start = recorded(shown_s[i] - zero_s),
                                      .duration = recorded(ran[i].end_s - ran[i].start_s),
                                      .line = static_cast<std::uint32_t>(job.timeline.records.size() + 2)});
      job.work_s.push_back(ran[i].work_s);
    }
    const double first_s = std::ranges::min_element(ran, {}, &RunOp::start_s)->start_s;
    job.step_times_s.push_back(std::ranges::max_element(ran, {}, &RunOp::end_s)->end_s - first_s);
  }
  return job;
}

std::string to_csv(const OpTimeline& timeline) {
  int stages = 0;
  for (const OpRecord& r : timeline.records) stages = std::max(stages, r.stage + 1);
  std::string text = "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n";
  for (const OpRecord& r : timeline.records) {
    const int microbatch = r.type == OpType::Gc ? 0 : r.microbatch;  // as real traces have it
    const int model_chunk = is_compute(r.type) ? r.chunk * stages + r.stage : -1;
    for (const int number : {r.dp_rank, r.stage, r.rank, r.step}) text += std::to_string(number) + ',';
    text += op_type_name(r.type);
    for (const Nanos time : {r.start, r.duration}) {
      text += ',' + seconds_text(seconds_from_ns(static_cast<double>(time.count())));
    }
    for (const int number : {r.seq, r.chunk, microbatch, model_chunk}) text += ',' + std::to_string(number);
    text += '\n';
  }
  return text;
}

std::string meta_yaml(const MadeJobSpec& spec) {
  std::string text = "trial_name: " + spec.name + "\nrun_id: 0\n";
  const auto line = [&](const char* key, int value) {
    text += std::string(key) + ": " + std::to_string(value) + "\n";
  };
  line("dp_size", spec.dp);
  line("dsp_size", spec.dsp);
  line("pp_size", spec.pp);
  line("tp_size", spec.tp);
  line("vpp_size", spec.chunks);
  line("world_size", spec.dp * spec.pp * spec.tp * spec.dsp);
  return text;
}

}  // namespace prism
