#include "tensor/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string_view>

namespace espalier {
namespace {

// Three significant digits and the largest unit that leaves at least 1.
std::string scaled(std::uint64_t value, double base, std::span<const std::string_view> units) {
  auto number = static_cast<double>(value);
  std::size_t unit = 0;
  while (unit + 1 < units.size() && number >= base) number /= base, ++unit;
  if (unit == 0) return units[0].empty() ? fmt::format("{}", value) : fmt::format("{} {}", value, units[0]);
  const int digits = number < 10 ? 2 : number < 1000 ? 1 : 0;
  return fmt::format("{:.{}f} {}", number, digits, units[unit]);
}

template <class Member>
std::uint64_t sum(const std::vector<TypeUse>& types, Member member) {
  return std::accumulate(types.begin(), types.end(), std::uint64_t{0},
                         [&](std::uint64_t total, const TypeUse& use) { return total + use.*member; });
}

}  // namespace

std::uint64_t Contents::parameters() const {
  return sum(types, &TypeUse::parameters);
}
std::uint64_t Contents::bytes() const {
  return sum(types, &TypeUse::bytes);
}

double Contents::bits_per_parameter() const {
  const std::uint64_t count = parameters();
  return count == 0 ? 0 : 8.0 * static_cast<double>(bytes()) / static_cast<double>(count);
}

Contents describe(const TensorFile& file) {
  Contents made;
  std::array<TypeUse, kDTypes> uses;
  for (const auto& tensor : file.tensors()) {
    const auto parameters = static_cast<std::uint64_t>(tensor.elements());
    made.tensors.push_back(
        {tensor.name, file.file_of(tensor), tensor.dtype, tensor.shape, parameters, tensor.stored_size()});
    TypeUse& use = uses[static_cast<std::size_t>(tensor.dtype)];
    use.type = tensor.dtype;
    use.tensors += 1;
    use.parameters += parameters;
    use.bytes += tensor.stored_size();
  }
  std::copy_if(uses.begin(), uses.end(), std::back_inserter(made.types),
               [](const auto& use) { return use.tensors > 0; });
  std::sort(made.types.begin(), made.types.end(), [](const TypeUse& a, const TypeUse& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.type < b.type;
  });
  return made;
}

std::string shown_bytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 6> units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return scaled(bytes, 1024, units);
}

std::string shown_count(std::uint64_t count) {
  constexpr std::array<std::string_view, 5> units = {"", "K", "M", "B", "T"};
  return scaled(count, 1000, units);
}

}  // namespace espalier
