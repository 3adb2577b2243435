// Anthropic's client for JavaScript: messages, thinking, tools, counts and errors, whole and streamed.
import assert from 'node:assert/strict';
import test from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { ask, checkCall, forecast, key, model, thinkingUrl, tools, url } from './asked.mjs';

const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
const user = [{ role: 'user', content: ask }];
const custom = tools.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters }));

// What a message says, without what differs from one answer to the next.
function told({ content, stop_reason, stop_sequence, usage }) {
  const blocks = content.map(({ type, text, thinking, name, input }) => ({ type, text, thinking, name, input }));
  return { blocks, stop_reason, stop_sequence, output: usage.output_tokens };
}

async function sameWholeAndStreamed(more = {}, by = client) {
  const asked = { model, max_tokens: 40, messages: user, ...more };
  if (more.temperature === undefined) asked.temperature = 0;
  const whole = await by.messages.create(asked);
  assert.deepEqual(told(await by.messages.stream(asked).finalMessage()), told(whole));
  return whole;
}

test('text streams as it is told whole', async () => {
  assert.equal((await sameWholeAndStreamed()).content[0].type, 'text');
  await sameWholeAndStreamed({ system: 'Be brief.', stop_sequences: ['e', 'a'] });
});

test('thinking is apart and streams as it is told whole', async () => {
  const thinker = new Anthropic({ baseURL: thinkingUrl, apiKey: key, maxRetries: 0 });
  const message = await sameWholeAndStreamed({ thinking: { type: 'enabled', budget_tokens: 9 } }, thinker);
  assert.equal(message.content[0].type, 'thinking');
  assert.ok(message.content[0].thinking);
});

test('tools are called, told their results and answered', async () => {
  const messages = [...user];
  for (let turn = 0; turn < 3; turn++) {
    const message = await sameWholeAndStreamed({ messages, tools: custom, max_tokens: 300, tool_choice: { type: 'any', disable_parallel_tool_use: true } });
    assert.equal(message.stop_reason, 'tool_use');
    assert.equal(message.content.length, 1);
    const [call] = message.content;
    checkCall(call.name, call.input);
    messages.push({ role: 'assistant', content: message.content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: forecast }] });
  }
  const answer = await sameWholeAndStreamed({ messages, tools: custom, tool_choice: { type: 'none' } });
  assert.ok(answer.content[0].text);
});

test('tokens are counted as they are used', async () => {
  const { input_tokens: count } = await client.messages.countTokens({ model, messages: user, tools: custom });
  const { usage } = await client.messages.create({ model, messages: user, tools: custom, max_tokens: 1 });
  assert.equal(count, usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0));
});

test('refusals are typed errors', async () => {
  const asked = { model, max_tokens: 1, messages: user };
  await assert.rejects(client.messages.create({ ...asked, model: 'no-such-model' }), Anthropic.NotFoundError);
  await assert.rejects(client.messages.create({ ...asked, temperature: 7 }), Anthropic.BadRequestError);
  await assert.rejects(client.messages.stream({ ...asked, temperature: 7 }).finalMessage(), Anthropic.BadRequestError);
  const stranger = new Anthropic({ baseURL: url, apiKey: 'another key', maxRetries: 0 });
  await assert.rejects(stranger.messages.create(asked), Anthropic.AuthenticationError);
});

test('models are listed', async () => {
  const names = [];
  for await (const one of client.models.list()) names.push(one.id);
  assert.deepEqual(names, [model]);
});
