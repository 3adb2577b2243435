// OpenAI's client for JavaScript: chat, completions, tools, log-probabilities and errors, whole and streamed.
import assert from 'node:assert/strict';
import test from 'node:test';
import OpenAI from 'openai';
import { ask, checkCall, forecast, key, model, thinkingUrl, tools, url } from './asked.mjs';

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const chat = [{ role: 'user', content: ask }];
const functions = tools.map((tool) => ({ type: 'function', function: { ...tool, strict: true } }));

async function folded(stream) {
  const said = { content: '', thinking: '', calls: [], logprobs: [], finish: null };
  for await (const chunk of stream) {
    for (const { delta, logprobs, finish_reason } of chunk.choices) {
      said.content += delta.content ?? '';
      said.thinking += delta.reasoning_content ?? '';
      for (const piece of delta.tool_calls ?? []) {
        if (piece.index === said.calls.length) said.calls.push({ name: piece.function.name, arguments: '' });
        said.calls[piece.index].arguments += piece.function.arguments ?? '';
      }
      said.logprobs.push(...(logprobs?.content ?? []));
      said.finish = finish_reason ?? said.finish;
    }
  }
  return said;
}

async function sameWholeAndStreamed(more = {}, by = client) {
  const asked = { model, messages: chat, temperature: 0, max_tokens: 40, ...more };
  const whole = await by.chat.completions.create(asked);
  const [choice] = whole.choices;
  assert.deepEqual(await folded(await by.chat.completions.create({ ...asked, stream: true })), {
    content: choice.message.content ?? '',
    thinking: choice.message.reasoning_content ?? '',
    calls: (choice.message.tool_calls ?? []).map((call) => call.function),
    logprobs: choice.logprobs?.content ?? [],
    finish: choice.finish_reason,
  });
  return choice;
}

test('text streams as it is told whole', async () => {
  assert.ok((await sameWholeAndStreamed()).message.content);
  await sameWholeAndStreamed({ temperature: 0.8, seed: 5 });
});

test('log-probabilities stream as they are told whole', async () => {
  const choice = await sameWholeAndStreamed({ logprobs: true, top_logprobs: 3, max_tokens: 12 });
  assert.ok(choice.logprobs.content.every((entry) => entry.top_logprobs.length === 3));
});

test('thinking is apart and streams as it is told whole', async () => {
  const thinker = new OpenAI({ baseURL: `${thinkingUrl}/v1`, apiKey: key, maxRetries: 0 });
  const choice = await sameWholeAndStreamed({ max_reasoning_tokens: 9 }, thinker);
  assert.ok(choice.message.reasoning_content);
});

test('tools are called, told their results and answered', async () => {
  const messages = [...chat];
  for (let turn = 0; turn < 3; turn++) {
    const choice = await sameWholeAndStreamed({ messages, tools: functions, tool_choice: 'required', parallel_tool_calls: false, max_tokens: 300 });
    assert.equal(choice.finish_reason, 'tool_calls');
    assert.equal(choice.message.tool_calls.length, 1);
    const [call] = choice.message.tool_calls;
    checkCall(call.function.name, call.function.arguments);
    messages.push(choice.message, { role: 'tool', tool_call_id: call.id, content: forecast });
  }
  const answer = await sameWholeAndStreamed({ messages, tools: functions, tool_choice: 'none' });
  assert.ok(answer.message.content);
});

test('the helper that gathers a stream gathers the whole reply', async () => {
  const asked = { model, messages: chat, temperature: 0, max_tokens: 300, tools: functions, tool_choice: 'required', parallel_tool_calls: false };
  const whole = await client.chat.completions.create(asked);
  const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
  const told = (reply) => reply.choices[0].message.tool_calls.map((call) => [call.function.name, call.function.arguments]);
  assert.deepEqual(told(streamed), told(whole));
});

test('completions stream as they are told whole', async () => {
  const asked = { model, prompt: 'Once upon a time', temperature: 0, max_tokens: 12, logprobs: 2 };
  const [whole] = (await client.completions.create(asked)).choices;
  let text = '';
  const values = [];
  for await (const chunk of await client.completions.create({ ...asked, stream: true })) {
    text += chunk.choices[0]?.text ?? '';
    values.push(...(chunk.choices[0]?.logprobs?.token_logprobs ?? []));
  }
  assert.equal(text, whole.text);
  assert.deepEqual(values, whole.logprobs.token_logprobs);
});

test('refusals are typed errors', async () => {
  const asked = { model, messages: chat, max_tokens: 1 };
  await assert.rejects(client.chat.completions.create({ ...asked, model: 'no-such-model' }), OpenAI.NotFoundError);
  await assert.rejects(client.chat.completions.create({ ...asked, temperature: -1 }), OpenAI.BadRequestError);
  await assert.rejects(client.chat.completions.create({ ...asked, temperature: -1, stream: true }), OpenAI.BadRequestError);
  const stranger = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'another key', maxRetries: 0 });
  await assert.rejects(stranger.chat.completions.create(asked), OpenAI.AuthenticationError);
});

test('models are listed', async () => {
  const names = [];
  for await (const one of client.models.list()) names.push(one.id);
  assert.deepEqual(names, [model]);
});
