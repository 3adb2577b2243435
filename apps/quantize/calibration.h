// calibration.h: what a model's matrices read while it reads a text.
//
// The model is carried out layer by layer (model/streamed): sums are kept of every matrix's inputs, and, while a layer is
// at hand, the products of its inputs among one another.
// Units:   mean squares and greatest magnitudes of each input. Threads: one; the team computes.
// Fails:   as StreamedModel; bad_request for a text that is too short.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/threads/compute_team.h"
#include "model/streamed/streamed_model.h"
#include "quantize/gptq.h"

namespace espalier::quantizer {

// A text as sequences of one length.
struct TextPieces {
  std::vector<TokenId> tokens;
  int length = 0;  // of each
};

// The beginning of a text's tokens, or its end; at most `most` tokens.
Result<TextPieces> pieces_of(std::span<const TokenId> tokens, int length, int most, bool tail);

// Sums over the rows that one stored tensor's matrix has multiplied.
struct InputSums {
  std::vector<double> squares;
  std::vector<float> greatest;
  std::int64_t rows = 0;
};

// Of a whole model.
class Calibration {
 public:
  using Progress = std::function<void(int done, int total)>;
  static Result<Calibration> measure(const ModelSpec& spec, const Weights& weights, const TextPieces& text,
                                     ComputeTeam& team, const Progress& progress);
  // Null: the tensor multiplies nothing that was seen.
  const InputSums* find(const std::string& tensor) const;
  // Mean squares of the columns of a tensor out of these; of several, one behind the other. Empty: not known.
  std::vector<float> importance(const std::vector<const Tensor*>& of) const;

 private:
  std::map<std::string, std::shared_ptr<InputSums>, std::less<>> sums_;
};

// Sums of x_i * x_j of the inputs of the matrices of one layer at a time. Order: tensors are asked for layer by layer.
class InputProducts {
 public:
  static Result<std::unique_ptr<InputProducts>> start(const ModelSpec& spec, const Weights& weights,
                                                      const TextPieces& text, ComputeTeam& team);
  // What rounds a matrix of this tensor, whose inputs are multiplied by `scales` (or empty) before it sees them: made once
  // for all matrices that read the same inputs. Null: the tensor is none that multiplies, or its layer is through. Fails:
  // internal for matrices of the same inputs with other scales.
  Result<std::shared_ptr<const Gptq>> gptq_of(const std::string& tensor, std::int64_t width,
                                              const std::vector<float>& scales);

 private:
  // Of one matrix's inputs: their sums until the first matrix is rounded, then what they come to.
  struct Products {
    std::int64_t width = 0;
    std::vector<float> sums, scales;  // sums: [width, width], of the mean
    std::shared_ptr<const Gptq> gptq;
  };
  InputProducts(const Weights& weights, ComputeTeam& team) : weights_(weights), team_(team) {}
  Result<Products*> of(const std::string& tensor);
  void add(MatrixId id, const float* rows, std::int64_t stride, int count);

  const Weights& weights_;
  ComputeTeam& team_;
  TextPieces text_;
  std::unique_ptr<StreamedModel> model_;
  int next_ = 0;
  std::map<std::string, int, std::less<>> section_of_;
  std::map<std::string, std::shared_ptr<Products>, std::less<>> kept_;
};

}  // namespace espalier::quantizer
