// Vercel's AI SDK over OpenAI's dialect: text, thinking, objects, tools in a loop and errors, whole and streamed.
import assert from 'node:assert/strict';
import test from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, Output, generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import { ask, checkCall, cities, forecast, key, model as name, thinkingUrl, tools, url } from './asked.mjs';

const house = (baseURL, apiKey = key) =>
  createOpenAICompatible({ name: 'espalier', baseURL: `${baseURL}/v1`, apiKey, includeUsage: true, supportsStructuredOutputs: true });
const model = house(url)(name);
const asked = { model, prompt: ask, temperature: 0, maxOutputTokens: 40, maxRetries: 0 };

async function sameWholeAndStreamed(more = {}) {
  const whole = await generateText({ ...asked, ...more });
  const streamed = streamText({ ...asked, ...more });
  let text = '';
  for await (const piece of streamed.textStream) text += piece;
  assert.equal(text, whole.text);
  assert.equal((await streamed.reasoningText) ?? '', whole.reasoningText ?? '');
  assert.equal(await streamed.finishReason, whole.finishReason);
  const calls = (list) => list.map((call) => [call.toolName, call.input]);
  assert.deepEqual(calls(await streamed.toolCalls), calls(whole.toolCalls));
  assert.equal((await streamed.usage).outputTokens, whole.usage.outputTokens);
  return whole;
}

test('text streams as it is told whole', async () => {
  assert.ok((await sameWholeAndStreamed()).text);
  await sameWholeAndStreamed({ temperature: 0.8, seed: 5, system: 'Be brief.' });
});

test('thinking is apart and streams as it is told whole', async () => {
  const thinker = house(thinkingUrl)(name);
  const whole = await sameWholeAndStreamed({ model: thinker, providerOptions: { espalier: { max_reasoning_tokens: 9 } } });
  assert.ok(whole.reasoningText);
});

test('objects have the form of their schema', async () => {
  const schema = jsonSchema({ type: 'object', properties: { city: { enum: cities } }, required: ['city'], additionalProperties: false });
  const { output } = await generateText({ ...asked, maxOutputTokens: 200, output: Output.object({ schema }) });
  assert.ok(cities.includes(output.city));
});

test('tools run in a loop until the answer, whole and streamed', async () => {
  const ran = [];
  const list = Object.fromEntries(tools.map(({ name, description, parameters }) => [name, tool({
    description, inputSchema: jsonSchema(parameters), strict: true,
    execute: async (input) => { ran.push([name, input]); return forecast; } })]));
  const more = { tools: list, maxOutputTokens: 300, stopWhen: stepCountIs(3), providerOptions: { espalier: { parallel_tool_calls: false } },
    prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber < 2 ? 'required' : 'none' }) };
  const whole = await sameWholeAndStreamed(more);
  assert.equal(whole.steps.length, 3);
  assert.ok(whole.text);
  assert.equal(ran.length % 2, 0);
  assert.ok(ran.length >= 4);
  assert.deepEqual(ran.slice(ran.length / 2), ran.slice(0, ran.length / 2));
  for (const [called, input] of ran) checkCall(called, input);
});

test('refusals are typed errors with their status', async () => {
  const status = (code) => (error) => APICallError.isInstance(error) && error.statusCode === code;
  await assert.rejects(generateText({ ...asked, model: house(url)('no-such-model') }), status(404));
  await assert.rejects(generateText({ ...asked, temperature: -1 }), status(400));
  await assert.rejects(generateText({ ...asked, model: house(url, 'another key')(name) }), status(401));
  const streamed = streamText({ ...asked, temperature: -1, onError: () => {} });
  await assert.rejects(async () => { for await (const part of streamed.fullStream) if (part.type === 'error') throw part.error; }, status(400));
});
