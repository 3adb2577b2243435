// The image module on a pipe, for tests/image/pillow_test.py. Each command is a line and bytes; each answer a line and
// bytes:
//   resize WIDTH HEIGHT FILTER NEW_WIDTH NEW_HEIGHT [LEFT TOP RIGHT BOTTOM]   + RGB   -> picture WIDTH HEIGHT + RGB
//   decode BYTES                                                            + file  -> the same, or error SENTENCE
//   frames BYTES                                                            + file  -> frames COUNT, then COUNT times
//                                                                    picture WIDTH HEIGHT MILLISECONDS + RGB
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

#include "image/decode/decode.h"
#include "image/resize/resize.h"

namespace {

using namespace espalier;
using namespace espalier::pictures;

void write_picture(const Picture& picture, const std::string& more = "") {
  std::cout << "picture " << picture.width << ' ' << picture.height << more << '\n';
  std::cout.write(reinterpret_cast<const char*>(picture.rgb.data()), static_cast<std::streamsize>(picture.rgb.size()));
}

void resize_command(std::istream& words) {
  int width = 0, height = 0, filter = 0, new_width = 0, new_height = 0;
  words >> width >> height >> filter >> new_width >> new_height;
  Picture picture(width, height);
  std::cin.read(reinterpret_cast<char*>(picture.rgb.data()), static_cast<std::streamsize>(picture.rgb.size()));
  std::optional<Box> box;
  Box given;
  if (words >> given.left >> given.top >> given.right >> given.bottom) box = given;
  write_picture(resize(picture, {new_height, new_width}, static_cast<Filter>(filter), box));
}

std::string file_of(std::istream& words) {
  std::size_t bytes = 0;
  words >> bytes;
  std::string file(bytes, '\0');
  std::cin.read(file.data(), static_cast<std::streamsize>(bytes));
  return file;
}

void decode_command(const std::string& file) {
  auto picture = decode_picture(std::as_bytes(std::span(file)));
  if (picture.ok()) {
    write_picture(*picture);
  } else {
    std::cout << "error " << picture.error().message << '\n';
  }
}

void frames_command(const std::string& file) {
  auto frames = decode_frames(std::as_bytes(std::span(file)));
  if (!frames.ok()) {
    std::cout << "error " << frames.error().message << '\n';
    return;
  }
  std::cout << "frames " << frames->size() << '\n';
  for (const Frame& frame : *frames) write_picture(frame.picture, " " + std::to_string(frame.duration.count()));
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "resize") resize_command(words);
    if (command == "decode") decode_command(file_of(words));
    if (command == "frames") frames_command(file_of(words));
    std::cout.flush();
  }
}
