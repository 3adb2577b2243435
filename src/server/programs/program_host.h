// program_host.h: what all programs of a server share: the thread that carries their calls, and how turns are written.
//
// Order:   stop() before it is destroyed, when nothing begins any more.
// Threads: any; stop(): one.
// Fails:   open(): bad_request for a model without a tokenizer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/chat_format.h"
#include "espalier/error.h"

namespace espalier::lang {
struct LocalService;
}

namespace espalier::server {

class Budget;
class ProgramDelivery;
struct ServedModel;

// What one request's programs may hold: their nodes, texts and variables, with the copies that forks take.
inline constexpr std::int64_t kMostProgramBytes = 64 << 20;

// Opens the local back end and the chat format that the programs of a model share, once a model.
class ProgramHost {
 public:
  struct Opened {
    std::shared_ptr<lang::LocalService> service;
    std::shared_ptr<const ChatFormat> format;
  };

  explicit ProgramHost(std::shared_ptr<Budget> media_memory);
  ~ProgramHost();
  Result<Opened> open(const std::shared_ptr<ServedModel>& model);
  void stop();

  void add(const std::string& id, const std::shared_ptr<ProgramDelivery>& program);
  void remove(const ProgramDelivery* program);
  void abort(std::string_view beginning);  // those whose ids begin so

 private:
  struct Running {
    std::string id;
    std::weak_ptr<ProgramDelivery> program;
  };
  const std::shared_ptr<Budget> media_memory_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<lang::LocalService>> opened_;
  std::map<const ProgramDelivery*, Running> running_;
};

}  // namespace espalier::server
