// batch_store.h: batches, and the results of their lines as they come.
//
// A line's result is stored once: what was stored before a server ended is not made again, and no line is written twice.
// Threads: as DataStore; functions take the opened database. Fails: not_found with code "batch_not_found"; as Database.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "server/batches/batch_input.h"
#include "server/store/database.h"

namespace espalier::server {

// The result of one line: its text in the output file (ok), or in the error file.
struct BatchResult {
  std::size_t line = 0;  // from 0
  bool ok = false;
  std::string text;
};

// A batch that is not over.
struct OpenBatch {
  std::string id, owner;
  Json batch;  // as the API tells it
};

Result<> add_batch(Database& data, std::string_view owner, const Json& batch);
Result<Json> load_batch(Database& data, std::string_view id, std::string_view owner);
Result<std::vector<Json>> list_batches(Database& data, std::string_view owner);  // oldest first
Result<std::vector<OpenBatch>> open_batches(Database& data, int most);           // oldest first
// Sets its status and the time of that ("in_progress_at").
Result<Json> set_batch_status(Database& data, std::string_view id, std::string_view owner, std::string_view status,
                              std::size_t total);
Result<> fail_batch(Database& data, std::string_view id, std::string_view owner, const std::vector<BatchFault>& faults);
// Its status behind that: "cancelling", where somebody said so meanwhile.
Result<std::string> add_results(Database& data, std::string_view id, std::string_view owner,
                                const std::vector<BatchResult>& results);
Result<std::set<std::size_t>> lines_done(Database& data, std::string_view id);
// The results become its files.
Result<> close_batch(Database& data, std::string_view id, std::string_view owner, std::string_view status);

}  // namespace espalier::server
