// file_store.h: uploaded files and those that batches make.
//
// A file belongs to the key that brought it; to others it is not there. Its content lies in chunks, so that no value of
// the database is larger than some MiB. One whose time has come is gone.
// Threads: as DataStore; functions take the opened database. Fails: not_found with code "file_not_found"; as Database.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "server/store/database.h"

namespace espalier::server {

// A file before it is stored.
struct NewFile {
  std::string owner, filename, purpose;
  std::string_view content;
  std::optional<std::int64_t> seconds;  // until it is gone
};

// Files as the API tells them: {"id", "object", "bytes", "created_at", "filename", "purpose", ...}.
Result<Json> add_file(Database& data, const NewFile& file);
Result<Json> load_file(Database& data, std::string_view id, std::string_view owner);
// Oldest first. `purpose` "": of all purposes.
Result<std::vector<Json>> list_files(Database& data, std::string_view owner, std::string_view purpose);
Result<std::string> file_content(Database& data, std::string_view id, std::string_view owner);
Result<> delete_file(Database& data, std::string_view id, std::string_view owner);

}  // namespace espalier::server
