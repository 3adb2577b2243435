// data_store.h: what the server keeps for its clients: stored responses, conversations, files and batches.
//
// One database in a folder (--data-dir), opened when somebody first needs it and closed with the server; a server that
// stores nothing touches no disk. Only one server may use a folder at a time.
// Threads: any; a Use holds the lock for as long as it lives, so keep it short.
// Fails:   as Database::open.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "server/store/database.h"

namespace espalier::server {

// Where data lie when --data-dir names no folder: $XDG_DATA_HOME/espalier or ~/.local/share/espalier.
std::string default_data_folder();

std::int64_t seconds_now();  // since 1970

// The folder and, once it was opened, its database.
class DataStore {
 public:
  // The database, locked.
  class Use {
   public:
    Use(std::unique_lock<std::mutex> lock, Database& database) : lock_(std::move(lock)), database_(&database) {}
    Database* operator->() const { return database_; }
    Database& operator*() const { return *database_; }

   private:
    std::unique_lock<std::mutex> lock_;
    Database* database_;
  };

  // `folder` empty: the default one.
  DataStore(std::string folder, std::int64_t most_bytes);

  Result<Use> open();
  // The database if there is one already: nothing is created for a look.
  Result<std::optional<Use>> open_existing();
  // Lets another server have the folder, until the next open().
  void close();
  const std::string& folder() const { return folder_; }

 private:
  const std::string folder_;
  const std::int64_t most_bytes_;
  std::mutex mutex_;
  std::optional<Database> database_;
};

}  // namespace espalier::server
