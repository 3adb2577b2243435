#include "server/store/data_store.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>

namespace espalier::server {

std::string default_data_folder() {
  const auto value = [](const char* name) {
    const char* found = std::getenv(name);
    return std::filesystem::path(found == nullptr ? "" : found);
  };
  if (const auto data = value("XDG_DATA_HOME"); data.is_absolute()) return data / "espalier";
  return value("HOME") / ".local/share/espalier";
}

std::int64_t seconds_now() {
  using namespace std::chrono;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

DataStore::DataStore(std::string folder, std::int64_t most_bytes)
    : folder_(folder.empty() ? default_data_folder() : std::move(folder)), most_bytes_(most_bytes) {}

Result<DataStore::Use> DataStore::open() {
  std::unique_lock lock(mutex_);
  if (!database_) {
    ESP_TRY(Database opened, Database::open(folder_, most_bytes_));
    database_.emplace(std::move(opened));
  }
  return Use(std::move(lock), *database_);
}

Result<std::optional<DataStore::Use>> DataStore::open_existing() {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::path(folder_) / "espalier.db", ignored)) return std::optional<Use>();
  ESP_TRY(Use use, open());
  return std::optional<Use>(std::move(use));
}

void DataStore::close() {
  const std::scoped_lock lock(mutex_);
  database_.reset();
}

}  // namespace espalier::server
