// wgmma_matrix.h: how Hopper's wgmma is told of a matrix in shared memory. Only nvcc compiles it.
//
// Units: bytes. Threads: any. Fails: never. Source: "Matrix Descriptor Format" of the PTX ISA.
#pragma once

#include <cstdint>
#include <cute/arch/mma_sm90_desc.hpp>

namespace espalier::simt {

// From one piece of 8 rows and 16 bytes to the next: along K, and to the next 8 rows. swizzle: 0, or 1 where the accelerator
// exchanged pieces within 128 bytes, which settles what is along K.
__device__ inline std::uint64_t wgmma_matrix(const void* shared, int along_k, int to_next_rows, int swizzle) {
  cute::GmmaDescriptor out;
  out.bitfield.start_address_ = static_cast<unsigned>(__cvta_generic_to_shared(shared)) >> 4 & 0x3fff;
  out.bitfield.leading_byte_offset_ = along_k >> 4;
  out.bitfield.stride_byte_offset_ = to_next_rows >> 4;
  out.bitfield.base_offset_ = 0;
  out.bitfield.layout_type_ = swizzle;
  return out;
}

}  // namespace espalier::simt
