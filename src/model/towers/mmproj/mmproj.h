// mmproj.h: llama.cpp's file of a tower with its projector (mmproj-*.gguf), seen as the checkpoint that it was made of.
//
// Its metadata become a configuration, its tensors get the names that the family's tower asks for, and what the converter
// has changed in them is turned back: frames of a patch apart, rows of queries and keys in pairs, channels before pixels,
// norms that store their gain whole. Everything else is read where it lies in the file.
// Threads: const calls from any thread. Fails: read() with bad_file naming key or tensor; unsupported for a projector that
// is not known here, naming those that are.
// Source:  llama.cpp's converter and its clip.cpp, for keys, names and what is changed.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "model/tower_spec.h"
#include "tensor/file/gguf.h"

namespace espalier {

struct Projector;  // mmproj_projectors.h

// The tensors of a tower's file under the names of an HF checkpoint.
class MmprojFile : public TensorFile {
 public:
  // `file` must outlive what is made of it.
  static Result<std::unique_ptr<MmprojFile>> read(const GgufFile& file);
  static Result<std::unique_ptr<MmprojFile>> open(const std::filesystem::path& path);

  const TowerSpec& spec() const { return spec_; }
  const Json& config() const { return config_; }  // as config.json would say it
  // How its pictures are made ready: mmproj_pictures.h.
  Json picture_settings(const std::function<bool(std::string_view)>& has_token) const;

  const Tensor* find(std::string_view name) const override;
  const std::vector<Tensor>& tensors() const override { return tensors_; }
  std::string file_of(const Tensor&) const override { return file_.name(); }
  Result<> intact() const override { return file_.intact(); }
  std::vector<FileStamp> stamps() const override { return file_.stamps(); }

 private:
  explicit MmprojFile(const GgufFile& file) : file_(file) {}
  Result<> name_tensors();
  Result<> add(const std::string& stored, const std::string& name);
  Result<Tensor> turned_back(const Tensor& stored);
  std::span<std::byte> owned(std::size_t bytes);
  Result<Tensor> joined_frames(Tensor first, const Tensor& second);
  std::int64_t stored_row(std::int64_t i, std::int64_t dim) const;
  Result<Tensor> rows_in_order(Tensor stored, std::int64_t parts);
  Result<Tensor> with_own_row(Tensor stored);
  Tensor pixels_first(Tensor stored);
  Result<Tensor> less_one(Tensor stored);

  std::unique_ptr<const GgufFile> opened_;  // by open(); null: by somebody else
  const GgufFile& file_;
  const Projector* projector_ = nullptr;
  Json config_;
  TowerSpec spec_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> places_;  // of tensors_, by name
  std::deque<std::vector<std::byte>> owned_;                // what was turned back
};

}  // namespace espalier
