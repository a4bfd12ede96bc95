// SPDX-License-Identifier: Apache-2.0
// Tensor and sequence parallelism: Shoeybi et al. 2019 (arXiv 1909.08053), Korthikanti et al. 2022 (arXiv 2205.05198). Ring
// attention: Liu et al. 2023 (arXiv 2310.01889). Ulysses: Jacobs et al. 2023 (arXiv 2309.14509). Expert parallelism: Lepikhin
// et al. 2020 (arXiv 2006.16668).
#include "prism/plan/stage_programs.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "prism/plan/data_parallel.hpp"
#include "prism/plan/layer_kernels.hpp"
#include "prism/plan/program_writer.hpp"

namespace prism {

namespace {

/// Which gradients a backward program computes.
enum class Gradients { Both, Input, Weight };

std::vector<Kernel> joined(std::initializer_list<const std::vector<Kernel>*> parts) {
  std::vector<Kernel> all;
  for (const std::vector<Kernel>* part : parts) all.insert(all.end(), part->begin(), part->end());
  return all;
}

double width_of(Precision precision) {
  return precision == Precision::Fp4 ? 0.5 : precision == Precision::Fp8 ? 1 : 2;
}

/// Writes the passes of one virtual stage.
class StageWriter {
 public:
  StageWriter(const Transformer& model, const Parallel& parallel, const Precisions& precisions,
              const Microbatch& microbatch, const StageLayers& layers)
      : model_(model),
        parallel_(parallel),
        precisions_(precisions),
        layers_(layers),
        kernels_(model, parallel, precisions, microbatch),
        attention_(kernels_.attention()),
        dense_(kernels_.dense_ffn()),
        split_(parallel.tp > 1),
        sequence_(split_ && parallel.sequence_parallel) {
    if (model.experts) {
      router_ = kernels_.router();
      experts_ = kernels_.experts();
      shared_ = kernels_.shared_experts();
    }
  }

  PassProgram forward() {
    ProgramWriter w;
    DataParallel data(model_, parallel_, precisions_, layers_);
    if (layers_.count == 0) wait_ = data.before_forward(w, 0);
    for (std::int64_t i = 0; i < layers_.count; ++i) {
      w.set_layer(layers_.first + i);
      wait_ = data.before_forward(w, i);
      if (layers_.embedding && i == 0) forward_embedding(w);
      forward_layer(w, layers_.first + i);
    }
    w.set_layer(-1);
    if (layers_.count == 0 && layers_.embedding) forward_embedding(w);
    if (layers_.loss) forward_losses(w);
    return w.take();
  }

  PassProgram backward(Gradients gradients) {
    ProgramWriter w;
    DataParallel data(model_, parallel_, precisions_, layers_);
    const bool weights = gradients != Gradients::Input;
    if (layers_.loss) backward_losses(w, gradients);
    for (std::int64_t i = layers_.count - 1; i >= 0; --i) {
      w.set_layer(layers_.first + i);
      wait_ = gradients == Gradients::Weight ? std::vector<int>{} : data.before_backward(w, i);
      backward_layer(w, layers_.first + i, i, gradients);
      if (layers_.embedding && i == 0) backward_embedding(w, gradients);
      if (weights) data.after_gradients(w, i);
    }
    w.set_layer(-1);
    if (layers_.count == 0) {
      if (layers_.embedding) backward_embedding(w, gradients);
      if (weights) data.after_gradients(w, 0);
    }
    if (weights) data.after_stage(w);
    return w.take();
  }

 private:
  /// What the next compute op waits for besides its input: gathered weights.
  std::vector<int> take_wait() { return std::exchange(wait_, {}); }

  [[nodiscard]] double activations() const { return kernels_.activation_bytes(); }
  [[nodiscard]] Communication over_tp(CollectiveOp kind, double share = 1) const {
    return {kind, GroupAxis::Tp, activations() * share, parallel_.tp_overlap};
  }
  [[nodiscard]] Communication gather_tp() const {
    return over_tp(CollectiveOp::AllGather, width_of(precisions_.tp_gather) / 2);
  }

  void enter(ProgramWriter& w, const std::string& what) {
    if (sequence_) w.communicate("gather " + what, gather_tp());
  }
  void leave(ProgramWriter& w, const std::string& what) {
    if (sequence_) {
      w.communicate("scatter " + what, over_tp(CollectiveOp::ReduceScatter));
    } else if (split_) {
      w.communicate("reduce " + what, over_tp(CollectiveOp::AllReduce));
    }
  }

  void context_attention(ProgramWriter& w, const std::vector<Kernel>& core, const std::vector<Kernel>& rest,
                         bool back) {
    const auto cp = static_cast<double>(parallel_.cp);
    const LayerKernels::HeadBytes bytes = kernels_.head_bytes();
    const std::string name = "attention core";
    switch (parallel_.cp_exchange) {
      case ContextExchange::Ring: {
        // Parts travel on while the part before is worked on; backward brings gradients along.
        const Communication ring{CollectiveOp::SendReceive, GroupAxis::Cp,
                                 (back ? 2 : 1) * (cp - 1) * bytes.keys_and_values};
        const int passed = w.communicate_aside("pass keys and values on", ring, {w.tail()});
        w.compute(name, core);
        w.compute("attention projection", rest, {passed});
        return;
      }
      case ContextExchange::AllGather:
        w.communicate("gather keys and values",
                      {CollectiveOp::AllGather, GroupAxis::Cp, cp * bytes.keys_and_values});
        w.compute(name, core);
        if (back) {
          w.communicate("scatter keys and values",
                        {CollectiveOp::ReduceScatter, GroupAxis::Cp, cp * bytes.keys_and_values});
        }
        w.compute("attention projection", rest);
        return;
      case ContextExchange::AllToAll:
        break;
    }
    const Communication in{CollectiveOp::AllToAll, GroupAxis::Cp, bytes.queries + bytes.keys_and_values};
    const Communication out{CollectiveOp::AllToAll, GroupAxis::Cp, bytes.results};
    w.communicate("exchange heads", back ? out : in);
    w.compute(name, core);
    w.communicate("exchange heads back", back ? in : out);
    w.compute("attention projection", rest);
  }

  void forward_attention(ProgramWriter& w) {
    const AttentionKernels& a = attention_;
    if (parallel_.cp == 1) {
      w.compute("attention", joined({&a.before.forward, &a.core.forward, &a.after.forward}), take_wait());
      return;
    }
    w.compute("attention qkv", a.before.forward, take_wait());
    context_attention(w, a.core.forward, a.after.forward, false);
  }

  [[nodiscard]] Communication dispatch(bool to_experts) const {
    const auto k = static_cast<double>(model_.experts->top_k);
    const double width = to_experts ? width_of(precisions_.dispatch) / 2 : 1;
    return {CollectiveOp::AllToAll, GroupAxis::Ep,
            activations() / kernels_.sequence_split() * k * width * parallel_.expert_load};
  }
  /// Routed tokens of all ranks that share an expert's parts.
  [[nodiscard]] Communication over_etp(CollectiveOp kind) const {
    const auto k = static_cast<double>(model_.experts->top_k);
    return {kind, GroupAxis::Etp,
            activations() / kernels_.sequence_split() * k * parallel_.expert_load *
                static_cast<double>(parallel_.etp)};
  }

  void forward_mixture(ProgramWriter& w) {
    w.compute("router", router_.forward, take_wait());
    const int routed = w.tail();
    w.communicate("dispatch tokens", dispatch(true));
    w.compute_aside("shared experts", shared_.forward, {routed});  // while tokens are on their way
    if (parallel_.etp > 1) w.communicate("gather expert tokens", over_etp(CollectiveOp::AllGather));
    w.compute("experts", experts_.forward);
    if (parallel_.etp > 1) w.communicate("scatter expert tokens", over_etp(CollectiveOp::ReduceScatter));
    w.communicate("combine tokens", dispatch(false));
  }

  void forward_layer(ProgramWriter& w, std::int64_t layer) {
    enter(w, "attention input");
    forward_attention(w);
    const bool mixture = model_.is_mixture(layer);
    const bool together = model_.parallel_blocks && !mixture;  // one way in and one way out for both
    if (!together) leave(w, "attention output");
    if (mixture) {
      forward_mixture(w);
      return;
    }
    if (!together) enter(w, "ffn input");
    w.compute("ffn", dense_.forward, take_wait());
    leave(w, "ffn output");
  }

  void forward_embedding(ProgramWriter& w) {
    w.compute("embedding", kernels_.embedding().forward, take_wait());
    leave(w, "embedding");
  }

  void forward_loss(ProgramWriter& w) {
    enter(w, "loss input");
    w.compute("loss", kernels_.loss().forward, take_wait());
    // Maximum, sum of exponentials, target logit: one fp32 value per token each.
    constexpr const char* kWhat[] = {"reduce largest logits", "reduce target logits",
                                     "reduce sums of exponentials"};
    for (const char* what : kWhat) {
      if (split_) w.communicate(what, {CollectiveOp::AllReduce, GroupAxis::Tp, 4 * kernels_.tokens()});
    }
  }

  void forward_losses(ProgramWriter& w) {
    for (std::int64_t i = 0; i < model_.prediction_layers; ++i) {
      w.compute("prediction input", kernels_.prediction_input().forward, take_wait());
      forward_layer(w, model_.layers - 1);
      forward_loss(w);
    }
    forward_loss(w);
  }

  /// The gradients of a block's weights, with its input gathered again; beside the data's way.
  void weight_gradients(ProgramWriter& w, const std::string& name, const std::vector<Kernel>& wgrad,
                        int gathered) {
    std::vector<int> after;
    if (gathered != kPassInput) after.push_back(gathered);
    w.compute_aside(name + " weights", wgrad, after);
  }
  /// Gathers a block's input again for its weight gradients, from what is there at `from` on.
  int gather_again(ProgramWriter& w, const std::string& what, int from) {
    if (!sequence_) return kPassInput;
    return w.communicate_aside("gather " + what + " again", gather_tp(), {from});
  }

  /// A block with one way in and out over tp: `dgrad` writes its input gradients.
  template <class Dgrad>
  void backward_block(ProgramWriter& w, const std::string& name, Dgrad dgrad,
                      const std::vector<Kernel>& wgrad, Gradients gradients) {
    if (gradients == Gradients::Weight) {
      weight_gradients(w, name, wgrad, gather_again(w, name + " input", kPassInput));
      return;
    }
    const int from = w.tail();
    if (sequence_) w.communicate("gather " + name + " gradients", over_tp(CollectiveOp::AllGather));
    const int again = gradients == Gradients::Both ? gather_again(w, name + " input", from) : kPassInput;
    dgrad();
    leave(w, name + " gradients");
    if (gradients == Gradients::Both) weight_gradients(w, name, wgrad, again);
  }

  void backward_mixture(ProgramWriter& w, Gradients gradients) {
    const std::vector<Kernel> weights = joined({&experts_.wgrad, &shared_.wgrad, &router_.wgrad});
    if (gradients == Gradients::Weight) {
      w.compute_aside("experts weights", weights, {});
      return;
    }
    std::vector<int> shared_after = take_wait();
    const std::vector<int> experts_after = shared_after;
    shared_after.push_back(w.tail());
    w.communicate("dispatch gradients", dispatch(false));
    w.compute_aside("shared experts", shared_.dgrad, shared_after);
    if (parallel_.etp > 1) w.communicate("gather expert gradients", over_etp(CollectiveOp::AllGather));
    w.compute("experts", experts_.dgrad, experts_after);
    if (parallel_.etp > 1) w.communicate("scatter expert gradients", over_etp(CollectiveOp::ReduceScatter));
    w.communicate("combine gradients", dispatch(false));
    if (gradients == Gradients::Both) w.compute_aside("experts weights", weights, {});
    w.compute("router", router_.dgrad);
  }

  void dgrad_attention(ProgramWriter& w) {
    const AttentionKernels& a = attention_;
    std::vector<Kernel> core = a.core.dgrad;
    if (parallel_.recompute == Recompute::Selective)
      core.insert(core.begin(), a.core.forward.begin(), a.core.forward.end());
    if (parallel_.cp == 1) {
      w.compute("attention", joined({&a.after.dgrad, &core, &a.before.dgrad}), take_wait());
      return;
    }
    w.compute("attention output", a.after.dgrad, take_wait());
    context_attention(w, core, a.before.dgrad, true);
  }

  void backward_layer(ProgramWriter& w, std::int64_t layer, std::int64_t index, Gradients gradients) {
    const bool full = parallel_.recompute == Recompute::Full &&
                      (parallel_.recompute_layers == 0 || index < parallel_.recompute_layers);
    if (full && gradients != Gradients::Weight) forward_layer(w, layer);
    const auto ffn = [&] { w.compute("ffn", dense_.dgrad, take_wait()); };
    const auto attention = [&] { dgrad_attention(w); };
    const std::vector<Kernel> weights = joined({&attention_.after.wgrad, &attention_.before.wgrad});
    const bool mixture = model_.is_mixture(layer);
    if (model_.parallel_blocks && !mixture) {
      const auto both = [&] {
        ffn();
        attention();
      };
      backward_block(w, "layer", both, joined({&dense_.wgrad, &weights}), gradients);
      return;
    }
    if (mixture) {
      backward_mixture(w, gradients);
    } else {
      backward_block(w, "ffn", ffn, dense_.wgrad, gradients);
    }
    backward_block(w, "attention", attention, weights, gradients);
  }

  void backward_prediction(ProgramWriter& w, Gradients gradients) {
    backward_layer(w, model_.layers - 1, 0, gradients);
    const BlockKernels input = kernels_.prediction_input();
    if (gradients != Gradients::Weight) w.compute("prediction input", input.dgrad);
    if (gradients != Gradients::Input) weight_gradients(w, "prediction input", input.wgrad, kPassInput);
  }

  void backward_losses(ProgramWriter& w, Gradients gradients) {
    const BlockKernels loss = kernels_.loss();
    for (std::int64_t i = 0; i <= model_.prediction_layers; ++i) {
      if (gradients == Gradients::Weight) {
        weight_gradients(w, "loss", loss.wgrad, gather_again(w, "loss input", kPassInput));
      } else {
        const int again = gradients == Gradients::Both ? gather_again(w, "loss input", w.tail()) : kPassInput;
        w.compute("loss", loss.dgrad, take_wait());
        leave(w, "loss gradients");
        if (gradients == Gradients::Both) weight_gradients(w, "loss", loss.wgrad, again);
      }
      if (i < model_.prediction_layers) backward_prediction(w, gradients);
    }
  }

  void backward_embedding(ProgramWriter& w, Gradients gradients) {
    if (gradients == Gradients::Input) return;
    if (sequence_) {
      const int from = gradients == Gradients::Weight ? kPassInput : w.tail();
      const int gathered =
          w.communicate_aside("gather embedding gradients", over_tp(CollectiveOp::AllGather), {from});
      w.compute_aside("embedding weights", kernels_.embedding().wgrad, {gathered});
    } else {
      w.compute_aside("embedding weights", kernels_.embedding().wgrad, {});
    }
  }

  const Transformer& model_;
  const Parallel& parallel_;
  const Precisions& precisions_;
  const StageLayers& layers_;
  LayerKernels kernels_;
  AttentionKernels attention_;
  BlockKernels dense_;
  BlockKernels router_;
  BlockKernels experts_;
  BlockKernels shared_;
  bool split_ = false;
  bool sequence_ = false;
  std::vector<int> wait_;
};

}  // namespace

StagePrograms transformer_passes(const Transformer& model, const Parallel& parallel,
                                 const Precisions& precisions, const Microbatch& microbatch,
                                 const StageLayers& layers) {
  StageWriter writer(model, parallel, precisions, microbatch, layers);
  return {.forward = writer.forward(),
          .backward = writer.backward(Gradients::Both),
          .backward_input = writer.backward(Gradients::Input),
          .backward_weight = writer.backward(Gradients::Weight)};
}

double boundary_bytes(const Transformer& model, const Parallel& parallel, const Microbatch& microbatch) {
  const Precisions precisions;
  const LayerKernels kernels(model, parallel, precisions, microbatch);
  return kernels.activation_bytes() / kernels.sequence_split();
}

}  // namespace prism
