// target_options.h: which server, as flags.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/serving/target.h"

namespace espalier::bench {

struct TargetOptions {
  std::string backend = "espalier";
  std::string base_url, host = "127.0.0.1";
  int port = 0;  // 0: the backend's
  std::string endpoint;
  std::string model, served_model_name;
  std::string api_key;
  std::vector<std::string> headers;  // "Name: value"
  double ready_timeout_s = 0;
};

void add_credential_flags(CLI::App& app, TargetOptions& options);
void add_target_flags(CLI::App& app, TargetOptions& options);

// The server at `url` of a backend, with the options' headers and key.
Result<Server> server_at(const std::string& url, const std::string& backend, const TargetOptions& options);
// The one that the flags name.
Result<Server> server_of(const TargetOptions& options);

}  // namespace espalier::bench
