#include "serve/rank_options.h"

#include <fmt/format.h>

#include "command/engine_flags.h"

namespace espalier::serve {
namespace {

constexpr int kMostStages = 1024, kMostGpus = 1024;

}  // namespace

Result<> RankOptions::settle(EngineOptions& engine) const {
  const int experts = expert_parallel ? flags.tp_size : ep_size;
  if (experts != 1 && experts != flags.tp_size)
    return bad_request(
        fmt::format("--ep-size is {}; it may be 1 (ranks share columns of all experts) or --tp-size, which is {} "
                    "(ranks share experts)",
                    experts, flags.tp_size),
        "ep_size");
  if (pp_size < 1 || pp_size > kMostStages)
    return bad_request(fmt::format("--pp-size is {}; it may be 1 to {}", pp_size, kMostStages), "pp_size");
  for (const auto& [flag, value] : {std::pair{"base-gpu-id", first_gpu}, {"gpu-id-step", gpu_step}})
    if (value < 0 || value > kMostGpus)
      return bad_request(fmt::format("--{} is {}; it may be 0 to {}", flag, value, kMostGpus), flag);
  engine.first_gpu = first_gpu;
  engine.gpu_step = gpu_step;
  engine.rank_stages = pp_size;
  engine.experts_by_id = experts > 1;
  return success();
}

// Sizes that are none stay as they are, for the plan to refuse.
ranks::RankFlags RankOptions::of_group() const {
  ranks::RankFlags all = flags;
  if (flags.tp_size >= 1 && flags.tp_size <= kMostStages) all.tp_size *= pp_size;
  return all;
}

void add_rank_flags(CLI::App& app, RankOptions& options) {
  app.option_defaults()->group("Ranks");
  const auto add = [&](const char* names, auto& value, const char* unit, const char* effect) {
    const std::string first = std::string(names).substr(2, std::string(names).find(',') - 2);
    app.add_option(names, value, effect)
        ->type_name(unit)
        ->envname(command::environment_twin(first))
        ->capture_default_str();
  };
  add("--tp-size,--tp,--tensor-parallel-size", options.flags.tp_size, "N",
      "processes that compute the model together, each with its share of weights, keys and values; the same bits as "
      "one");
  add("--ep-size,--ep,--expert-parallel-size", options.ep_size, "N",
      "1: ranks share columns of all experts; as --tp-size: they share the experts");
  add("--pp-size,--pp,--pipeline-parallel-size", options.pp_size, "N",
      "stages of --tp-size processes, each with some of the layers: for a model that is too large for fewer hosts' "
      "memory");
  app.add_flag("--enable-expert-parallel", options.expert_parallel, "--ep-size is --tp-size")
      ->envname(command::environment_twin("enable-expert-parallel"))
      ->default_str("false");
  add("--base-gpu-id", options.first_gpu, "N", "the GPU of a host's first rank, where --device names none");
  add("--gpu-id-step", options.gpu_step, "N",
      "how many GPUs lie from one rank's to the next one's; 0: all of a host's ranks have one GPU");
  add("--nnodes", options.flags.nnodes, "N", "hosts that they run on; each starts tp-size / nnodes of them");
  add("--node-rank", options.flags.node_rank, "N", "which of the hosts this is; 0 serves");
  add("--dist-init-addr,--nccl-init-addr", options.flags.dist_init_addr, "HOST:PORT",
      "where host 0 waits for the others");
  add("--dist-backend", options.flags.dist_backend, "auto|tcp|mpi",
      "what connects hosts: MPI where mpirun or srun started this, else TCP");
  add("--dist-timeout", options.start_seconds, "SECONDS", "how long ranks may take to come together");
}

}  // namespace espalier::serve
