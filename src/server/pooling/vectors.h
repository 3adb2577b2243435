// vectors.h: what routes make of the engine's vectors and scores: cut, normed, as probabilities, as bytes.
//
// Threads: pure functions. Fails: never.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/engine.h"
#include "server/delivery/json_writer.h"

namespace espalier::server {

// A length of 1; a vector of zeros stays. `width`: of one, where there are several behind one another.
void normalise(std::span<float> values, std::size_t width);
// The first `width` values of each (Matryoshka).
void cut(std::vector<float>& values, std::size_t of, std::size_t width);
double cosine(std::span<const float> a, std::span<const float> b);
// Late interaction: for each vector of `query` its best product with one of `document`, added up; both in rows of `width`.
double best_products(std::span<const float> query, std::span<const float> document, std::size_t width);
std::vector<double> scaled(std::span<const float> scores, PooledInfo::Scale how);
double sigmoid(double x);
// Their indices, the highest score's first; of equal ones the first stays first.
std::vector<std::size_t> best_first(std::span<const double> scores);
// Little-endian float32, as base64.
std::string base64_floats(std::span<const float> values);

// What the numbers of an answer are.
//   int8, uint8       each vector's largest value becomes 127, so that cosines stay (uint8: 128 more)
//   binary, ubinary   a bit for each value, set where it is above 0, the first one on top; eight a byte (binary: 128 less)
enum class NumberType { floats, base64, int8, uint8, binary, ubinary };
std::string_view name_of(NumberType type);  // "float", "base64", "int8", ...
std::optional<NumberType> number_type_named(std::string_view name);
std::vector<int> as_bytes(std::span<const float> vector, NumberType type);  // Requires: one of the last four

// A list of numbers.
void write_numbers(JsonWriter& json, std::span<const float> values);
// One vector, as that type.
void write_as(JsonWriter& json, std::span<const float> vector, NumberType type);
// The same; `as_list`: a list of the vectors. base64 is of all of them in one.
void write_vectors(JsonWriter& json, const PooledEvent& pooled, NumberType type, bool as_list);

}  // namespace espalier::server
