// What the tests of every client ask the server that test_javascript.py started: its address, key and model's name.
import assert from 'node:assert/strict';

export const url = process.env.ESPALIER_URL;
export const key = process.env.ESPALIER_KEY;
export const model = process.env.ESPALIER_MODEL;
export const thinkingUrl = process.env.ESPALIER_THINKING_URL;
export const ask = 'What is the weather in Rome?';
export const forecast = 'Sunny, 24 degrees, no wind.';
export const cities = ['Rome', 'Oslo', 'D\u00fcsseldorf "Mitte"'];
export const whys = ['a "b"\n', '\u00fc{}'];
export const tools = [
  { name: 'weather', description: 'The weather of a city.', parameters: {
    type: 'object', properties: { city: { enum: cities }, days: { type: 'integer', minimum: 1, maximum: 9 } },
    required: ['city', 'days'], additionalProperties: false } },
  { name: 'stop_all', description: 'Stop everything.', parameters: {
    type: 'object', properties: { why: { enum: whys } }, required: ['why'], additionalProperties: false } },
];

// A call of one of the tools, its arguments as their schema wants them.
export function checkCall(name, input) {
  const said = typeof input === 'string' ? JSON.parse(input) : input;
  if (name === 'weather') {
    assert.deepEqual(Object.keys(said).sort(), ['city', 'days']);
    assert.ok(cities.includes(said.city));
    assert.ok(Number.isInteger(said.days) && said.days >= 1 && said.days <= 9);
  } else {
    assert.equal(name, 'stop_all');
    assert.ok(whys.includes(said.why));
  }
}
