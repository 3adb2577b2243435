// gguf_names.h: which of some GGUF files are towers, and which tower belongs to a model, by their names alone.
//
// A tower has the word "mmproj" in its name. It belongs to a model when both are called the same but for that word, for
// types ("Q4_K_M", "f16") and numbers of parts; and to the only model there is, in however many types, whatever it is called.
// Threads: pure functions. Fails: never.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace espalier {

// `path`: folders before the name do not count.
bool is_mmproj_name(std::string_view path);

// Of the files of one folder; `model` is one of them. Of several towers that fit the one whose type is best to compute
// with: f16, bf16, f32, then q8_0 and others.
std::optional<std::string> mmproj_of_model(std::string_view model, std::span<const std::string> names);

}  // namespace espalier
