#include "server/openapi/plain_fields.h"

#include <string>

namespace espalier::server {
namespace {

// One field: `type` is JSON's, or "any" where several may stand there; "!" behind the name: it must be there.
struct PlainField {
  std::string_view body, name, type, meaning;
};

constexpr std::string_view kTexts = "a text, or a list of them";
constexpr std::string_view kModel = "a served name, \"default\" or nothing";
constexpr std::string_view kPrompt = "a text, a list of texts, token ids, or a list of such lists";

constexpr PlainField kFields[] = {
    {"Conversation", "messages!", "array", "what was said: role and content, a text or a list of parts"},
    {"Conversation", "tools", "array", "functions that may be called"},
    {"Conversation", "tool_choice", "any", "none, auto, required, allowed_tools, or the function that is called"},
    {"Conversation", "parallel_tool_calls", "boolean", "false: one call at most"},

    {"Completion", "prompt!", "any", kPrompt},

    {"Generate", "text", "any", "a prompt, or a list of them"},
    {"Generate", "input_ids", "array", "token ids of a prompt, or a list of such lists"},
    {"Generate", "image_data", "any", "pictures of the prompt: URLs, data URLs, files, base64"},
    {"Generate", "video_data", "any", "films of the prompt"},
    {"Generate", "stream", "boolean", "server-sent events"},
    {"Generate", "return_prompt_token_ids", "boolean", "adds the prompt's tokens"},
    {"Generate", "model", "string", kModel},
    {"Generate", "segments", "array", "instead of a prompt: texts, and holes with a name and sampling_params"},

    {"BranchesToAppend", "src_rids", "array", "sequences whose tokens are appended"},
    {"BranchesToAppend", "dst_rid", "string", "the sequence that they are appended to"},

    {"Response", "input!", "any", "a text, or a list of items"},
    {"Response", "instructions", "string", "a system message before all, of this turn alone"},
    {"Response", "previous_response_id", "string", "a stored response that this one goes on from"},
    {"Response", "conversation", "any", "the conversation that this one goes on from and is added to"},
    {"Response", "include", "array", "message.output_text.logprobs"},
    {"Response", "metadata", "object", "repeated in the answer"},
    {"Response", "reasoning", "object", "effort, max_tokens, summary"},
    {"Response", "text", "object", "format: text, json_object or json_schema; verbosity"},
    {"Response", "tools", "array", "functions that may be called"},
    {"Response", "tool_choice", "any", "none, auto, required, or the function that is called"},
    {"Response", "parallel_tool_calls", "boolean", "false: one call at most"},
    {"Response", "max_tool_calls", "integer", "repeated in the answer: this server runs no tools itself"},
    {"Response", "prompt", "any", "refused: this server keeps no prompts"},
    {"Response", "truncation", "string", "only disabled: a prompt is never shortened"},
    {"Response", "context_management", "any", "refused: a prompt is never shortened"},
    {"Response", "special_tokens_in_text", "string", "special or text: what special strings of texts are"},
    {"Response", "chat_template_kwargs", "object", "further variables of the template"},
    {"Response", "max_reasoning_tokens", "integer", "thinking is closed behind so many tokens; -1 = no limit"},

    {"LlamaCppCompletion", "prompt!", "any",
     "a text, token ids and texts, {\"prompt_string\": ...}, or a list of these"},
    {"LlamaCppInfill", "input_prefix", "string", "the text before the cursor"},
    {"LlamaCppInfill", "input_suffix", "string", "the text behind it"},
    {"LlamaCppInfill", "input_extra", "array", "further files: filename and text of each"},
    {"LlamaCppInfill", "prompt", "string", "behind the prefix: the cursor's line so far"},
    {"LlamaCppEmbedding", "content", "any", kTexts},
    {"LlamaCppEmbedding", "input", "any", "the same"},
    {"LlamaCppEmbedding", "embd_normalize", "integer", "-1: as they are, 0: by the largest, 1: taxicab, 2: Euclidean"},

    {"Message", "model", "string", kModel},
    {"Message", "max_tokens!", "integer", "tokens of the answer, thinking included"},
    {"Message", "messages!", "array", "turns: role and content, a text or blocks"},
    {"Message", "system", "any", "a text, or blocks of text, before all turns"},
    {"Message", "stop_sequences", "array", "texts at which the answer ends"},
    {"Message", "stream", "boolean", "server-sent events"},
    {"Message", "temperature", "number", "0 to 2"},
    {"Message", "top_p", "number", "0 to 1"},
    {"Message", "top_k", "integer", "0: all tokens"},
    {"Message", "tools", "array", "custom tools: name, description, input_schema"},
    {"Message", "tool_choice", "object", "type auto, any, tool (with name) or none; disable_parallel_tool_use"},
    {"Message", "thinking", "object", "type enabled, adaptive or disabled; budget_tokens"},
    {"Message", "output_config", "object", "effort"},
    {"Message", "metadata", "object", "user_id"},
    {"Message", "lora_path", "string", "a LoRA adapter that is served"},
    {"Message", "cache_control", "object", "type ephemeral, ttl 5m or 1h: the whole prompt stays in memory"},

    {"OllamaShared", "model", "string", "a served name; NAME:latest is NAME"},
    {"OllamaShared", "lora_path", "string", "a LoRA adapter that is served"},
    {"OllamaShared", "name", "string", "the same, of older clients"},
    {"OllamaPrompt", "stream", "boolean", "lines of JSON, unless false"},
    {"OllamaPrompt", "format", "any", "json, or a JSON schema"},
    {"OllamaPrompt", "options", "object", "num_predict, and sampling fields as llama.cpp names them"},
    {"OllamaPrompt", "keep_alive", "any", "how long the model stays in memory: seconds, or a duration; 0: it leaves"},
    {"OllamaPrompt", "think", "any", "true, false, low, medium or high"},
    {"OllamaPrompt", "logprobs", "boolean", "log-probabilities of the output's tokens"},
    {"OllamaPrompt", "top_logprobs", "integer", "likeliest tokens at every position"},
    {"OllamaChat", "messages", "array", "turns: role, content, images, thinking, tool_calls, tool_name"},
    {"OllamaChat", "tools", "array", "functions that may be called"},
    {"OllamaGenerate", "prompt", "string", "one turn of the user; empty: the model is loaded"},
    {"OllamaGenerate", "suffix", "string", "the text behind the output: fill in the middle"},
    {"OllamaGenerate", "images", "array", "pictures, base64"},
    {"OllamaGenerate", "system", "string", "a system message"},
    {"OllamaGenerate", "template", "string", "only the model's own"},
    {"OllamaGenerate", "context", "array", "tokens of an earlier reply, before this turn"},
    {"OllamaGenerate", "raw", "boolean", "the prompt as it is, without the template"},
    {"OllamaEmbed", "input!", "any", kTexts},
    {"OllamaEmbed", "truncate", "boolean", "false: longer texts are refused"},
    {"OllamaEmbed", "dimensions", "integer", "the first so many values of each vector"},
    {"OllamaEmbed", "keep_alive", "any", "accepted"},
    {"OllamaEmbeddings", "prompt!", "string", "the text"},
    {"OllamaEmbeddings", "truncate", "boolean", "false: longer texts are refused"},
    {"OllamaEmbeddings", "dimensions", "integer", "the first so many values of the vector"},
    {"OllamaEmbeddings", "keep_alive", "any", "accepted"},
    {"OllamaPull", "stream", "boolean", "lines of JSON, unless false"},

    {"Embedding", "input", "any", kTexts},
    {"Embedding", "messages", "array", "a conversation instead of texts"},
    {"Embedding", "tools", "array", "of the conversation"},
    {"Embedding", "add_generation_prompt", "boolean", "of the conversation: it ends with the opening of an answer"},
    {"Embedding", "continue_final_message", "boolean", "of the conversation: its last message stays open"},
    {"Embedding", "chat_template_kwargs", "object", "of the conversation: further variables of the template"},
    {"Embedding", "task", "string",
     "of /pooling: embed, classify, score, encode, token_embed; else what the text is for"},
    {"Embedding", "embedding_type", "any", "of /v1/embeddings: float, base64, int8, uint8, binary or ubinary"},
    {"Embedding", "late_chunking", "boolean", "only false: each text is embedded by itself"},
    {"CohereEmbed", "texts", "array", "texts"},
    {"CohereEmbed", "images", "array", "pictures instead of texts"},
    {"CohereEmbed", "inputs", "array", "or texts and pictures, each a list of parts"},
    {"CohereEmbed", "embedding_types", "array", "float, base64, int8, uint8, binary, ubinary: each is told"},
    {"CohereEmbed", "max_tokens", "integer", "longer texts are cut to so many tokens"},
    {"TextEmbed", "inputs!", "any", kTexts},
    {"TextPredict", "inputs!", "any", "a text, a pair of texts, or a list of lists of one or two"},
    {"TextSimilarity", "inputs!", "object", "source_sentence, a text; sentences, a list of texts"},
    {"TextSimilarity", "parameters", "object", "the fields beside, as text-embeddings-inference has them"},
    {"Rerank", "query!", "any", "the text that documents are judged by"},
    {"Rerank", "documents", "array", "texts, or objects with one"},
    {"Rerank", "texts", "array", "the same, text-embeddings-inference's name"},
    {"Rerank", "top_n", "integer", "so many of the best are told"},
    {"Rerank", "return_documents", "boolean", "documents stand in the answer"},
    {"Rerank", "return_text", "boolean", "the same, of `texts`"},
    {"Score", "text_1", "any", kTexts},
    {"Score", "text_2", "any", kTexts},
    {"Score", "queries", "any", "as text_1"},
    {"Score", "documents", "any", "as text_2"},
    {"Score", "data_1", "any", "as text_1"},
    {"Score", "data_2", "any", "as text_2"},
    {"Score", "query", "any", "with label_token_ids: a text, or token ids"},
    {"Score", "items", "any", "as text_2; with label_token_ids: what stands behind the query"},
    {"Score", "label_token_ids", "array", "tokens whose probabilities behind each item are told"},
    {"Score", "apply_softmax", "boolean", "probabilities among the labels"},
    {"Score", "item_first", "boolean", "the item stands before the query"},
    {"Encode", "text", "any", kTexts},
    {"Encode", "input_ids", "array", "token ids of a text, or a list of such lists"},
    {"Encode", "image_data", "any", "pictures of the texts"},
    {"Encode", "video_data", "any", "films of the texts"},

    {"Tokenize", "model", "string", kModel},
    {"Tokenize", "prompt", "any", kTexts},
    {"Tokenize", "content", "any", "llama.cpp's name: texts and ids in a row"},
    {"Tokenize", "messages", "array", "a conversation, rendered by the template"},
    {"Tokenize", "add_special_tokens", "boolean", "of prompt: with the tokens that the tokenizer puts around a text"},
    {"Tokenize", "special_tokens_in_text", "string", "special or text: what special strings of texts are"},
    {"Tokenize", "add_special", "boolean", "of content: with the tokens that the tokenizer puts around a text"},
    {"Tokenize", "parse_special", "boolean", "of content: special strings are special tokens"},
    {"Tokenize", "with_pieces", "boolean", "of content: the text of each token"},
    {"Detokenize", "model", "string", kModel},
    {"Detokenize", "tokens!", "array", "ids, or a list of lists of them"},
    {"Detokenize", "skip_special_tokens", "boolean", "special tokens are left out"},
    {"CountedChat", "model", "string", kModel},
    {"CallsToParse", "text!", "string", "what a model wrote"},
    {"CallsToParse", "tool_call_parser", "string", "how it writes calls; by default as its template shows"},
    {"CallsToParse", "tools", "array", "functions that may be called"},
    {"ReasoningToSeparate", "text!", "string", "what a model wrote"},
    {"ReasoningToSeparate", "reasoning_parser", "string", "how it marks thinking; by default as its template shows"},

    {"OpenSession", "session_id", "string", "the session's name; made up without one"},
    {"OpenSession", "capacity_of_str_len", "integer", "accepted"},
    {"OpenSession", "timeout", "number", "seconds without a request after which it is closed"},
    {"CloseSession", "session_id", "string", "which one"},
    {"Abort", "rid", "string", "the beginning of the ids of requests"},
    {"Abort", "abort_all", "boolean", "all that run or wait"},
    {"Pin", "text", "any", "the prefix"},
    {"Pin", "input_ids", "array", "or its tokens"},
    {"Pin", "messages", "array", "or a conversation"},
    {"Pin", "image_data", "any", "pictures of the prefix"},
    {"Pin", "video_data", "any", "films of the prefix"},
    {"Pin", "special_tokens_in_text", "string", "special or text: what special strings of texts are"},
    {"Pin", "id", "string", "what the pin is called; made up without one"},
    {"Pin", "cache_salt", "string", "requests of different salts share no cached prefix"},
    {"Pin", "extra_key", "string", "the same; both count"},
    {"Pin", "seconds", "number", "for how long; 0 = until it is released"},
    {"Pin", "model", "string", kModel},
    {"Unpin", "id!", "string", "which pin"},
    {"ModelName", "model!", "string", "which model"},
    {"LoadAdapter", "lora_name!", "string", "what the adapter is to be called"},
    {"LoadAdapter", "lora_path!", "string", "where it lies, below --lora-dir"},
    {"LoadAdapter", "pinned", "boolean", "stays in memory"},
    {"LoadAdapter", "load_inplace", "boolean", "an adapter of that name gives way"},
    {"LoadAdapter", "model", "string", "the model that it is for"},
    {"UnloadAdapter", "lora_name!", "string", "which one"},
    {"Drawing", "tried", "string", "a text that the automaton is followed along"},
    {"Drawing", "states", "integer", "so many are drawn at most"},

    {"Metadata", "metadata", "object", "up to 16 texts by name"},
    {"Items", "items", "array", "up to 20 items"},
    {"NewConversation", "metadata", "object", "up to 16 texts by name"},
    {"NewConversation", "items", "array", "up to 20 items that it begins with"},
    {"Batch", "input_file_id!", "string", "an uploaded file of purpose batch"},
    {"Batch", "endpoint!", "string", "the route of its lines"},
    {"Batch", "completion_window!", "string", "24h"},
};

}  // namespace

void add_plain_fields(Json& object, std::string_view body) {
  for (const PlainField& field : kFields) {
    if (field.body != body) continue;
    const bool required = field.name.ends_with('!');
    const std::string name(field.name.substr(0, field.name.size() - (required ? 1 : 0)));
    Json schema = {{"description", std::string(field.meaning)}};
    if (field.type != "any") schema["type"] = Json::array({std::string(field.type), "null"});
    if (required && field.type != "any") schema["type"] = std::string(field.type);
    if (field.type == "array") schema["items"] = Json::object();
    object["properties"][name] = std::move(schema);
    if (required) object["required"].push_back(name);
  }
}

}  // namespace espalier::server
