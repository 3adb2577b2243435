// mmproj_pictures.h: how pictures are made ready for a tower out of llama.cpp's file: what its metadata say, in the words of
// the files that a processor reads in a folder of Hugging Face's (image/processors/processor.h).
//
// The steps are those of the family's processor in transformers, so that tokens and pixels are those of the checkpoint. What
// the metadata do not say is as in llama.cpp's tools/mtmd (numbers of tokens that a picture may have), or else the family's
// own default. clip.vision.image_min_pixels and image_max_pixels count for every family whose pictures keep their sizes.
// Units:   pixels. Threads: pure functions. Fails: never; numbers that cannot be are refused by the processor.
// Source:  llama.cpp's clip.cpp and mtmd.cpp for keys and defaults, transformers 5.24 for classes and their fields.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/json/json.h"
#include "model/towers/mmproj/mmproj_projectors.h"

namespace espalier {

// An object with the members "preprocessor", "processor", "tokenizer" and "config", each as the file of that name.
// `config`: what configuration_of() gave. `has_token`: whether the text model's vocabulary has a token of this text.
Json picture_settings_of(const GgufFile& file, const Projector& projector, const Json& config,
                         const std::function<bool(std::string_view)>& has_token);

}  // namespace espalier
