// rank_options.h: the flags that say which processes compute one model together, SGLang's spellings.
//
// `--tp-size N` alone starts N ranks here; with `--nnodes` each host starts its share; mpirun, srun and LeaderWorkerSet say
// the rest themselves (ranks/rank_plan.h). Threads: values. Fails: bad_request naming the flag.
#pragma once

#include <CLI/CLI.hpp>

#include "espalier/engine.h"
#include "ranks/rank_plan.h"

namespace espalier::serve {

// As they were given.
struct RankOptions {
  ranks::RankFlags flags;
  int ep_size = 1, pp_size = 1;
  bool expert_parallel = false;  // ep_size is tp_size
  double start_seconds = 600;    // that a rank may take to come
  int first_gpu = 0, gpu_step = 1;

  // What depends on several of them; the engine's own follow from it.
  Result<> settle(EngineOptions& engine) const;
  // Of all stages: what a group is planned with.
  ranks::RankFlags of_group() const;
  bool alone() const { return flags.tp_size == 1 && pp_size == 1; }
};

void add_rank_flags(CLI::App& app, RankOptions& options);

}  // namespace espalier::serve
