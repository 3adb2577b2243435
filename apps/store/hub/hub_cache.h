// hub_cache.h: the hub's cache on disk, in the layout that other tools read and write too.
//
//   models--org--name/blobs/<hash>              content, named by SHA-256 or Git's SHA-1; <hash>.incomplete while it
//   comes models--org--name/refs/<revision>           the commit that a branch or tag meant when it was last asked
//   models--org--name/snapshots/<commit>/<file> links into blobs (copies where links do not exist)
//   .locks/models--org--name/<hash>.lock        held while a blob is written
// Threads: any; processes exclude each other by the locks. Fails: what disk.h lists; not_found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "store/hub/hub_files.h"
#include "store/local_model.h"
#include "store/model_name.h"

namespace espalier::store {

class HubCache {
 public:
  explicit HubCache(std::filesystem::path root) : root_(std::move(root)) {}

  std::filesystem::path repository(const std::string& repository) const;  // .../models--org--name
  std::filesystem::path blob(const std::string& repository, const HubFile& file) const;
  std::filesystem::path lock(const std::string& repository, const HubFile& file) const;
  std::filesystem::path snapshot(const std::string& repository, const std::string& commit) const;

  // The commit a revision means here, if that is known.
  std::optional<std::string> commit_of(const HubName& name) const;

  // Gives a blob its name in a snapshot.
  Result<> add_to_snapshot(const std::string& repository, const std::string& commit, const HubFile& file) const;
  Result<> write_ref(const HubName& name, const std::string& commit) const;

  // The model, when all its files are here; not_found says what is missing.
  Result<Model> find(const std::string& given_name, const HubName& name) const;

  struct Entry {
    Model model;  // its name is one that `find` understands
    std::uint64_t bytes = 0;
  };
  // Every whole model of every snapshot, by name.
  std::vector<Entry> models() const;

 private:
  void add_models_of(const std::string& repository, const std::filesystem::path& snapshot,
                     std::vector<Entry>& to) const;

  std::filesystem::path root_;
};

// The hash that names a file's blob.
const std::string& blob_name(const HubFile& file);

}  // namespace espalier::store
