// picture.h: a decoded picture, and cutting and framing of it.
//
// Units:   sizes in pixels; rows from the top, three bytes (red, green, blue) a pixel, no gaps.
// Threads: values. Fails: never; callers see to sizes that fit (decode/decode.h limits what comes from outside).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace espalier::pictures {

// Memory that is not zeroed before it is written: a file that promises many pixels and has none costs no pages.
template <class T>
struct Unwritten : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = Unwritten<U>;
  };
  template <class U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
  template <class U, class... Arguments>
  void construct(U* place, Arguments&&... arguments) {
    ::new (static_cast<void*>(place)) U(std::forward<Arguments>(arguments)...);
  }
};
using Bytes = std::vector<std::uint8_t, Unwritten<std::uint8_t>>;

// Height and width, in this order as model configurations have it.
struct Size {
  int height = 0, width = 0;
  bool operator==(const Size&) const = default;
};

// Pixels of red, green and blue.
struct Picture {
  int width = 0, height = 0;
  Bytes rgb;  // height × width × 3

  Picture() = default;
  // Its pixels are not written yet.
  Picture(int w, int h) : width(w), height(h), rgb(static_cast<std::size_t>(w) * static_cast<std::size_t>(h) * 3) {}
  Size size() const { return {height, width}; }
  std::uint8_t* row(int y) { return rgb.data() + offset(y); }
  const std::uint8_t* row(int y) const { return rgb.data() + offset(y); }
  bool operator==(const Picture&) const = default;

 private:
  std::size_t offset(int y) const { return static_cast<std::size_t>(y) * static_cast<std::size_t>(width) * 3; }
};

// The whole picture in one colour.
void fill(Picture& picture, std::array<std::uint8_t, 3> colour);

// The part of `picture` whose upper left corner is at (left, top); it lies within the picture.
Picture crop(const Picture& picture, int left, int top, Size size);

// `picture` at (left, top) of a picture of the given size and colour; it fits in.
Picture frame(const Picture& picture, int left, int top, Size size, std::array<std::uint8_t, 3> colour = {0, 0, 0});

// The middle of `picture`; black where the picture is smaller.
Picture center_crop(const Picture& picture, Size size);

}  // namespace espalier::pictures
