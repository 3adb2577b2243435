// How sure the model was, token by token, and what else it might have said.
#include <cmath>
#include <iostream>

#include "_backend.h"
#include "espalier/program.h"

namespace sgl = espalier;

void capital(sgl::State& s, const std::string& country) {
  s += "The capital of " + country + " is" +
       sgl::gen("city",
                {.max_tokens = 4, .return_logprob = true, .top_logprobs_num = 3, .return_text_in_logprobs = true});
}

// In quotes, line ends as \n; a token may hold half a character, which is shown as a question mark in a diamond.
std::string shown(const sgl::Json& texts) {
  return texts.dump(-1, ' ', false, sgl::Json::error_handler_t::replace);
}

int main() {
  const sgl::State state = sgl::run([](sgl::State& s) { capital(s, "France"); },
                                    {.backend = example::open_backend(), .defaults = {.temperature = 0}});
  const sgl::Json meta = state.meta("city");
  for (std::size_t i = 0; i < meta["output_token_logprobs"].size(); ++i) {
    const sgl::Json& token = meta["output_token_logprobs"][i];  // log-probability, id, text
    sgl::Json others = sgl::Json::array();
    for (const sgl::Json& other : meta["output_top_logprobs"][i]) others.push_back(other[2]);
    std::cout << shown(token[2]) << " " << std::exp(token[0].get<double>()) << " of " << shown(others) << "\n";
  }
}
