// processor.h: a picture -> the floats that a model's tower reads, and the place-holder tokens that stand for it in the text.
//
// A processor is made once a model, from the files of its folder; what it makes of a picture depends on that picture
// alone, never on its neighbours in a prompt or a batch. Values equal those of the processors of transformers 5.24 with
// Pillow's arithmetic, bit for bit; what those add to make tensors rectangular (padding to the largest of a batch or to
// a budget of patches) is left out.
// Units:   pixels; sizes are height and width. Threads: const calls from any thread.
// Fails:   bad_file: the folder's files say something impossible; unsupported: a processor that is not known;
//          bad_request: a picture that this processor refuses, such as one 200 times as wide as high.
// Source:  transformers 5.24: image_processing_*.py, processing_*.py and video_processing_*.py of each family.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "espalier/json.h"
#include "image/picture.h"

namespace espalier::pictures {

// Patches in time, down and across.
struct PatchGrid {
  int time = 0, height = 0, width = 0;
  bool operator==(const PatchGrid&) const = default;
};

// One picture (or film) as the tower takes it. Which fields are set depends on the family:
//   tiles of one size       shape [tiles, 3, height, width]; tiles, rows, columns (0 and 0: not cut into tiles)
//   patches in a grid       shape [patches, 3 × time × height × width of a patch], or [patches, 3, height, width]; grid
//   patches of each tile    as patches in a grid, one tile after the other; tile_grids
// A film's grid.time is above 0 in all of them.
struct PixelBlock {
  std::vector<float> values;
  std::vector<std::int64_t> shape;  // outermost first
  PatchGrid grid;                   // of the whole picture: image_grid_thw
  std::vector<Size> tile_grids;     // patches of each tile: spatial_shapes (LFM2-VL), target_sizes (MiniCPM-V)
  Size original;                    // the picture's own size: image_sizes of LLaVA
  Size resized;                     // the size it was brought to before it was cut: image_sizes of Pixtral
  int tiles = 0;                    // a whole view of the picture among them, where there is one
  int rows = 0, columns = 0;        // of tiles
  int film_part = 0;                // of grid.time, that the tower is given at once; 0: all
  double seconds = 0;               // of a film, that a step of grid.time takes

  std::int64_t value_count() const;  // by the shape, whether they are there or not
};

// A stretch of what stands for a picture in the text: characters (special tokens, line breaks), or image tokens.
struct PlaceholderPiece {
  std::string text;
  int image_tokens = 0;
};

// What a picture's place-holder in the prompt is replaced by. Each image token takes one row of the tower's output.
struct Placeholders {
  std::vector<PlaceholderPiece> pieces;
  // Texts around the picture's number among the pictures (or the film's among the films) of the prompt, from 0, before all
  // pieces; both empty: it has none.
  std::array<std::string, 2> numbered;

  void add(std::string_view text);
  void add_image_tokens(int count);
  int image_tokens() const;
  std::string number_text(std::size_t number) const;     // empty where it has none
  std::string text(std::string_view image_token) const;  // of the pieces
};

// The parsed files of a model's folder; null where there is none.
struct ProcessorFiles {
  Json preprocessor;        // preprocessor_config.json
  Json processor;           // processor_config.json
  Json video_preprocessor;  // video_preprocessor_config.json
  Json tokenizer;           // tokenizer_config.json: what special tokens are called
  Json config;              // config.json
};

// When the frames of a film that were taken are shown, and how long all of it takes; in seconds.
struct FilmTimes {
  std::vector<double> frames;
  double duration = 0;
  double per_second = 24;  // of the frames that were taken
  bool told = true;        // false: nobody says, so 24 per second are assumed
};

// A film's frames one after another. Each is decoded when it is asked for, so that one at a time is in memory.
using NextFrame = std::function<Result<Picture>()>;

// Makes pictures and films ready for one model.
class Processor {
 public:
  virtual ~Processor() = default;

  virtual Result<PixelBlock> process(const Picture& picture) const = 0;
  virtual Placeholders placeholders(const PixelBlock& block) const = 0;

  // Films: which of `frames` pictures, shown `per_second`, are taken; what the tower gets of those taken, all of one size,
  // but for its values; and the text that stands for them, which needs no values. unsupported: the family takes none.
  virtual Result<std::vector<int>> choose_frames(int frames, double per_second) const;
  virtual Result<PixelBlock> plan_film(Size frame, int frames, const FilmTimes& times) const;
  virtual Result<Placeholders> film_placeholders(const PixelBlock& block, const FilmTimes& times) const;
  // The values of a planned block, out of so many frames. Fails: as `next` does; bad_request: frames of different sizes.
  Result<> fill_film(PixelBlock& block, int frames, const NextFrame& next) const;
  // Both for frames that are there.
  Result<PixelBlock> process_film(std::span<const Picture> pictures, const FilmTimes& times) const;

  // The text of the token that a prompt carries once for a picture, and of the one that features replace.
  const std::string& placeholder() const { return placeholder_; }
  const std::string& image_token() const { return image_token_; }
  // What stands before and behind a placeholder in prompts of the family, where that is no part of what replaces it.
  const std::string& before() const { return before_; }
  const std::string& behind() const { return behind_; }
  // The same for films; empty where the family takes none.
  const std::string& film_placeholder() const { return film_placeholder_; }
  const std::string& film_token() const { return film_token_; }
  std::uint64_t fingerprint() const { return fingerprint_; }  // of everything that process() depends on

 protected:
  // Of a block that plan_film() made; the frames have its original size.
  virtual Result<> append_frames(PixelBlock& block, int frames, const NextFrame& next) const;

  std::string placeholder_, image_token_, film_placeholder_, film_token_;
  std::string before_, behind_;

 private:
  friend Result<std::unique_ptr<const Processor>> make_processor(const ProcessorFiles& files);
  std::uint64_t fingerprint_ = 0;
};

Result<std::unique_ptr<const Processor>> make_processor(const ProcessorFiles& files);

}  // namespace espalier::pictures
