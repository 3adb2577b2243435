// served_runs.h: runs of a program that a server carries out: one request for many, and what each has come to.
//
// Order:   ServedRuns::accepted(), attach()*, close().
//          Of one run `then` is called once, unless its Call was dropped before.
//          When no run is attached any more that has not ended, the request is given up.
// Threads: any; `then` runs on the back end's own, never from inside attach().
// Fails:   accepted(): what the server refused the request for, network; nothing has run then, and the runs can be made
//          call by call. Later failures are those of the runs.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "espalier/backend.h"
#include "espalier/program.h"

namespace espalier::lang {

// What one run of a served program came to: its variables, text or error.
struct ServedResult {
  struct Variable {
    Result<Value> value;
    Json meta;
  };
  std::map<std::string, Variable, std::less<>> variables;
  std::string text;
  std::vector<Message> messages;
  std::optional<Error> error;  // what ended the run
};

// The runs of one request to a server that carries out programs.
class ServedRuns {
 public:
  virtual ~ServedRuns() = default;
  virtual Result<> accepted() = 0;  // waits for the server's word
  virtual std::unique_ptr<Call> attach(std::size_t run, std::function<void(Result<ServedResult>)> then) = 0;
  virtual void close() = 0;  // runs that are not attached by now never will be
};

// A back end's server that can carry out whole programs.
class ProgramServer {
 public:
  virtual ~ProgramServer() = default;
  // `body`: of POST /v1/programs, but for what says how it is answered.
  virtual std::shared_ptr<ServedRuns> begin(Json body, std::size_t runs) = 0;
};

// What a state's queue has of a run: it waits for the result, which becomes the state's text and variables.
struct ServedItem {
  std::shared_ptr<ServedRuns> runs;
  std::size_t number = 0;
  std::vector<std::string> names;  // that the program sets
};

}  // namespace espalier::lang
