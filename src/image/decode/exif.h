// exif.h: how a camera was held: the orientation in EXIF (or XMP) data, and turning a picture accordingly.
//
// Threads: pure functions. Fails: never; data that cannot be read has orientation 1.
// Source:  EXIF 2.32 (TIFF's first directory, tag 0x0112); as Pillow's ImageOps.exif_transpose.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "image/picture.h"

namespace espalier::pictures {

// Of a TIFF block, with or without "Exif\0\0" before it; nullopt: it says nothing.
std::optional<int> exif_orientation(std::span<const std::uint8_t> block);
// Of an XMP text: the digit behind tiff:Orientation.
std::optional<int> xmp_orientation(std::span<const std::uint8_t> text);

// The picture as it should be seen; orientations other than 2 to 8 leave it.
Picture upright(Picture picture, int orientation);

}  // namespace espalier::pictures
