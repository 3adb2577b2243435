// _facts.h: what the agent and the retrieval look into: the lines of the files in examples/data.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace example {

std::vector<std::string> facts();

// How many different words of the one the other has too; upper and lower case are the same.
std::size_t common_words(const std::string& one, const std::string& other);

}  // namespace example
