// job.h: what a run makes: pieces with their places in the files of the output, and the files' heads.
//
// Threads: one. Fails: unsupported, naming what would work; bad_file naming the tensor.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/load/loaded_model.h"
#include "model/weights/weights.h"
#include "quantize/calibration.h"
#include "quantize/piece.h"
#include "quantize/target.h"

namespace espalier::quantizer {

// An opened source.
struct Source {
  std::string path;
  bool folder = false;
  ModelFiles files;
  std::unique_ptr<Weights> weights;  // of files
  Json config;                       // config.json's object; of folders

  // reads_text: with its tokenizer.
  static Result<Source> open(const std::string& path, bool reads_text = true);
  const TensorFile& tensors() const { return *files.weights; }
};

struct JobWishes {
  Target target;
  TypeWishes types;
  int group = 0;                          // inputs that share a scale; 0: as fits
  const Calibration* measured = nullptr;  // null: nothing was
  const TextPieces* text = nullptr;       // what it was measured on
  ComputeTeam* team = nullptr;            // where something was measured
};

struct Job {
  bool folder = false;
  std::vector<Piece> pieces;
  std::vector<OutputFile> files;
  // Of folders: files beside the tensors, and their content.
  std::vector<std::pair<std::string, std::string>> beside;
  std::vector<std::string> notes;  // for the reader: what was left out, what could not be as asked

  std::uint64_t bytes() const;
};

Result<Job> make_job(const Source& source, const JobWishes& wishes);
// By kind of source and target.
Result<Job> gguf_from_gguf(const Source& source, const JobWishes& wishes);
Result<Job> gguf_from_folder(const Source& source, const JobWishes& wishes);
Result<Job> tensors_from_folder(const Source& source, const JobWishes& wishes);

}  // namespace espalier::quantizer
