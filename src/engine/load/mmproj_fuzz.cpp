// Any bytes as the file of a vision tower: refused with a sentence, or its program is built or refused, and so is what makes
// pictures ready for it.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "image/processors/processor_files.h"
#include "model/program/builder.h"
#include "model/towers/mmproj/mmproj.h"

namespace {

void require(bool promise) {
  if (!promise) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  static const std::string path =
      std::filesystem::temp_directory_path() / ("espalier-mmproj-" + std::to_string(::getpid()) + ".gguf");
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const auto file = MmprojFile::open(path);
  std::filesystem::remove(path);  // what is mapped stays
  if (!file.ok()) {
    require(!file.error().message.empty());
    return 0;
  }
  const Weights weights(**file, Naming::hf);
  const auto program = Builder::build((*file)->spec(), &weights);
  require(program.ok() || !program.error().message.empty());
  const Json settings = (*file)->picture_settings([](std::string_view) { return true; });
  const auto processor = pictures::make_processor(pictures::processor_files_of(settings));
  require(processor.ok() || !processor.error().message.empty());
  if (!processor.ok() || settings["preprocessor"].dump().find("000") != std::string::npos)
    return 0;  // large sizes take long
  pictures::Picture picture(48, 32);
  const auto block = (*processor)->process(picture);
  if (block.ok()) (void)(*processor)->placeholders(*block);
  return 0;
}
