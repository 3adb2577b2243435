// backends.h: the back ends that there are, and how each is opened.
//
//   auto backend = espalier::open_native({.base_url = "http://127.0.0.1:30000"});
//   if (!backend.ok()) ...   // backend.error().message says what would work
//   espalier::set_default_backend(*backend);
//
// All remote back ends of a process share one thread for their connections. A try that ends in 408, 409, 425, 429, 5xx
// or a broken connection is made again after a pause, as RetryOptions say; a stream of which something was told already
// is not. docs/recipes/add-a-language-back-end.md has a table of what each can do.
// Threads: any; opening one may ask the server a question and waits for the answer.
// Fails:   bad_request (a field that cannot be), unauthorized (no key), network and what the server answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "espalier/backend.h"

namespace espalier {

namespace lang {
class LocalPictures;  // lang/backends/local/local_pictures.h
class LocalRoutes;    // lang/backends/local/local_routes.h
}  // namespace lang

class Engine;

// The pause before try i+1 is first_pause * 2^(i-1), at most longest_pause, of which up to a half is left off at
// random. A Retry-After that is longer is kept instead; one above longest_pause ends the tries at once.
struct RetryOptions {
  int tries = 4;
  std::chrono::milliseconds first_pause{500};
  std::chrono::milliseconds longest_pause{60'000};
};

// Time-outs, retries and the number of requests at once, for one server.
struct ConnectionOptions {
  std::chrono::milliseconds connect_timeout{20'000};
  std::chrono::milliseconds idle_timeout{0};   // longest silence of the server; 0 = unlimited: it may queue for long
  std::chrono::milliseconds timeout{600'000};  // of one try, all in all; 0 = unlimited
  RetryOptions retry = {};
  int most_at_once = 256;                           // requests to this server; more wait here
  std::uint64_t most_reply_bytes = 256u << 20;      // of one answer
  std::map<std::string, std::string> headers = {};  // more of them
};

// The model in this process.
struct LocalOptions {
  std::shared_ptr<Engine> engine = {};
  std::string chat_template = {};                      // a name of lang/chat/chat_formats.h; empty = the model's own
  std::shared_ptr<lang::LocalPictures> pictures = {};  // how it is shown pictures; null: it reads none
  std::shared_ptr<lang::LocalRoutes> routes = {};      // who scores and embeds texts; null: nobody
};
Result<std::shared_ptr<Backend>> open_local(LocalOptions options);

// Espalier's and SGLang's own interface (/generate).
struct NativeOptions {
  std::string base_url = {};  // "http://127.0.0.1:30000"
  std::string api_key = {};   // empty: none
  std::string chat_template =
      {};  // a name of lang/chat/chat_formats.h; empty = the server's own, else by its model's path
  ConnectionOptions connection = {};
};
Result<std::shared_ptr<Backend>> open_native(const NativeOptions& options);

// How a server of OpenAI's routes can be asked for more than OpenAI's own can.
enum class OpenAiServer {
  openai,    // OpenAI itself, Azure, and who takes no more than they
  espalier,  // this project's
  sglang,
  vllm,
};

// How open_openai() reaches OpenAI, Azure or a server of that interface.
struct OpenAiOptions {
  std::string model = {};                 // "gpt-4o-mini"; of Azure: the deployment
  std::optional<bool> chat = {};          // unset: all but gpt-3.5-turbo-instruct and its like are chat models
  std::string base_url = {};              // empty: OPENAI_BASE_URL, else OpenAI's; with its "/v1"
  std::string api_key = {};               // empty: OPENAI_API_KEY (AZURE_OPENAI_API_KEY)
  std::string organization = {};          // empty: OPENAI_ORG_ID
  std::string chat_template = {};         // how a state's text looks; empty = "default"
  std::optional<OpenAiServer> kind = {};  // unset: found out from /models when base_url is not OpenAI's
  bool azure = false;                     // base_url (AZURE_OPENAI_ENDPOINT) is the resource's
  std::string azure_api_version = "2024-10-21";
  bool text_is_turn = false;  // of a chat model: a text without roles is one turn of the user's; false: refused
  int constraint_tries = 0;   // > 0: what the server cannot constrain is made so often until it matches; 0: an error
  ConnectionOptions connection = {};
};
Result<std::shared_ptr<Backend>> open_openai(OpenAiOptions options);

// How open_anthropic() reaches Anthropic's Messages interface.
struct AnthropicOptions {
  std::string model = {};     // "claude-sonnet-4-5"
  std::string base_url = {};  // empty: ANTHROPIC_BASE_URL, else Anthropic's
  std::string api_key = {};   // empty: ANTHROPIC_API_KEY
  std::string chat_template = {};
  std::string version = "2023-06-01";  // of the interface
  int constraint_tries = 0;
  ConnectionOptions connection = {};
};
Result<std::shared_ptr<Backend>> open_anthropic(AnthropicOptions options);

// generateContent: the public interface with a key, or Vertex AI with a project.
struct GeminiOptions {
  std::string model = {};         // "gemini-2.5-flash"
  std::string base_url = {};      // empty: the public interface's, or the location's Vertex AI
  std::string api_key = {};       // of the public interface; empty: GEMINI_API_KEY, GOOGLE_API_KEY
  bool vertex = false;            // Vertex AI
  std::string project = {};       // of Vertex AI; empty: GCP_PROJECT_ID, GOOGLE_CLOUD_PROJECT
  std::string location = {};      // empty: GCP_LOCATION, GOOGLE_CLOUD_LOCATION, else us-central1
  std::string bearer_token = {};  // of Vertex AI; empty: GOOGLE_OAUTH_ACCESS_TOKEN (`gcloud auth print-access-token`)
  // What is held back, from when on: {"HARM_CATEGORY_HARASSMENT", "BLOCK_ONLY_HIGH"}; sent as they are.
  std::map<std::string, std::string> safety_settings = {};
  std::string chat_template = {};
  int constraint_tries = 0;
  ConnectionOptions connection = {};
};
Result<std::shared_ptr<Backend>> open_gemini(const GeminiOptions& options);

}  // namespace espalier
