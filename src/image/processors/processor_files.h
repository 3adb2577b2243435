// processor_files.h: the files of a model's folder that say how its pictures are made ready.
//
// Threads: pure functions. Fails: bad_file naming the file that is no JSON, or too large.
#pragma once

#include <filesystem>
#include <optional>

#include "image/processors/processor.h"

namespace espalier::pictures {

// nullopt: neither preprocessor_config.json nor an image_processor in processor_config.json is there, so the model reads
// no pictures, or its maker did not say how.
Result<std::optional<ProcessorFiles>> read_processor_files(const std::filesystem::path& folder);

// The same files as the members "preprocessor", "processor", "tokenizer" and "config" of one object.
ProcessorFiles processor_files_of(const Json& settings);

}  // namespace espalier::pictures
