// SPDX-License-Identifier: Apache-2.0
// Duration classes and shared factors of a plan: its variability as a step model holds it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "prism/model/step_model.hpp"
#include "prism/plan/variability.hpp"

namespace prism {

/// Time that an op spends in kernels of one class.
struct KernelTime {
  KernelClass kind = KernelClass::Gemm;
  double ns = 0;
};

/// Makes classes on demand, each once, and adds them and their factors to a model.
class PlanLaws {
 public:
  /// Keeps references to both.
  PlanLaws(const Variability& variability, StepModel& model);

  /// Class of a compute op named `key` that is made of such kernels. Kernels vary alone from run to run and together
  /// with their GPU: the relative spread of their sum follows from their shares.
  ClassId compute(const std::string& key, Category category, std::span<const KernelTime> kernels,
                  bool of_microbatch);

  /// Class of a communication op over such links.
  ClassId communication(const std::string& key, Category category, LinkClass link);

  /// Class of pauses before a pass; its base is 1 ns.
  ClassId pause();

 private:
  struct Own {
    OwnDraw draw = OwnDraw::Constant;
    double sigma = 0;
    std::vector<double> pool;
  };
  [[nodiscard]] Own own_of(const Spread& spread, double cv) const;
  [[nodiscard]] Own own_of(const Spread& spread, const Disturbance& tail) const;
  ClassId add(const std::string& key, Category category, const Own& own, std::vector<FactorId> factors);
  FactorId factor(const std::string& name, FactorScope scope, std::uint64_t draw_id, const Spread& spread,
                  double cv, bool once);
  FactorId factor(const std::string& name, FactorScope scope, std::uint64_t draw_id,
                  const Disturbance& disturbance);

  const Variability& variability_;
  StepModel& model_;
  std::map<std::tuple<std::string, Category, double, double, bool>, ClassId> compute_;
  std::map<std::tuple<std::string, Category, LinkClass>, ClassId> communication_;
  std::map<std::tuple<FactorScope, std::uint64_t, double>, FactorId> factors_;
  std::map<std::vector<double>, ClassId> pools_;  // first class that holds these values
};

}  // namespace prism
