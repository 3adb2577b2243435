// contender.h: one server of a comparison: given by its address, or launched by us.
// Units:   seconds.
// Threads: one; calls block.
// Fails:   bad_request for a specification that is neither; what launching and asking refuse.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "bench/compare/server_process.h"
#include "bench/serving/target_options.h"

namespace espalier::bench {

// "[NAME=]http://host:port" or "[NAME=]command ... {port} ...".
struct ContenderSpec {
  std::string name, url, command;  // one of url and command
};
Result<ContenderSpec> parse_contender(const std::string& text);

struct ContenderOptions {
  TargetOptions target;  // backend "auto": found out from /v1/models
  std::string log_folder = ".";
  double launch_timeout_s = 400;
  std::function<bool()> interrupted;
};

class Contender {
 public:
  Contender(ContenderSpec spec, ContenderOptions options) : spec_(std::move(spec)), options_(std::move(options)) {}

  const ContenderSpec& spec() const { return spec_; }
  bool launched_by_us() const { return !spec_.command.empty(); }
  pid_t pid() const;                                 // 0: unknown
  const Target& target() const { return *target_; }  // Requires: up() was good

  // Launches it if it is ours and not running, waits until it completes a request and asks what it serves. Gives the
  // seconds from the launch to that completion, 0 where it was running already.
  Result<double> up();
  void down();  // ends it if it is ours

 private:
  Result<> launch();
  Result<> wait_for_completion();
  Error ended_early() const;

  ContenderSpec spec_;
  ContenderOptions options_;
  std::optional<ServerProcess> process_;
  std::string url_;
  std::optional<Target> target_;
  pid_t known_pid_ = 0;
};

// "espalier-oai", "llamacpp", "vllm", ...: who says it owns the models; "openai" when nobody known does.
std::string detect_backend(const Server& server);

}  // namespace espalier::bench
