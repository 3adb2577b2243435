// local_pictures.h: who makes the pictures of a program's text ready for the model of a local back end.
//
// The text has a mark for each picture, as the chat format writes it or as the model's own prompts carry it.
// Threads: any. Fails: bad_request: not as many marks as pictures, a picture that cannot be read; unsupported: a model
// without pictures.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/backend.h"
#include "espalier/request.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::lang {

// Implemented above this module, where processors of pictures are known (server/media/program_pictures.h).
class LocalPictures {
 public:
  virtual ~LocalPictures() = default;

  // A text's beginning up to its last picture: its tokens, what stands for the pictures among them, and its bytes.
  struct Beginning {
    std::vector<TokenId> ids;
    std::vector<PictureInput> pictures;
    std::size_t bytes = 0;
  };
  virtual Result<Beginning> encode(std::string_view text, std::span<const std::shared_ptr<const Picture>> pictures,
                                   EncodeOptions options) = 0;
};

}  // namespace espalier::lang
