// adapter_folder.h: the adapters that lie in a folder: each folder with an adapter_config.json, and each .gguf file, called as
// it is; of two that are called alike the folder.
//
// Threads: one looks at a time. Fails: never: what cannot be read is not there.
#pragma once

#include <map>
#include <string>

namespace espalier::server {

// One of them.
struct FolderAdapter {
  std::string name, path;
  std::string stamp;       // of its files: another one when they have changed
  std::string base_model;  // that it says it is for; empty: none
};

// A folder that is looked at again and again.
class AdapterFolder {
 public:
  explicit AdapterFolder(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }
  // By name. Takes as long as the disk does; of those that are as they were nothing is read.
  const std::map<std::string, FolderAdapter>& look();

 private:
  std::string path_;
  std::map<std::string, FolderAdapter> there_;
};

}  // namespace espalier::server
