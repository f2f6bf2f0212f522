// Reads the events of a fleet: each one once, and nothing of a shard's former owner.
//
//     npm ci && node consumer.mjs --server 127.0.0.1:4222 --bot b1 --durable worker
//
// Prints a line of JSON for each event, and for what may be missing between two of them.
// What a reader has to do, and why: firmware/docs/guarantees.md.
import { parseArgs } from 'node:util';
import { AckPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { login } from './login.mjs';

const STREAM = 'SHARDFW_EV';
const BATCH = 100;
const WAIT_MS = 5000;
const SEEN_MAX = 100_000; // ids that are remembered: more than can be delivered a second time

const { values } = parseArgs({
  options: {
    server: { type: 'string', default: '127.0.0.1:4222' },
    bot: { type: 'string' },
    durable: { type: 'string', default: 'worker' }, // its place is kept under this name; one reader each
    count: { type: 'string', default: 'Infinity' }, // end after so many messages
  },
});

// What the node says of a session itself. What may be missing this reader finds out from the events;
// RESTORED (a restart cost nothing) and THREADS_STALE (Fluxer: ask for threads anew) are for whoever needs them.
const NOTICES = new Set(
  ['NEW_SESSION', 'RESUMED', 'RESTORED', 'THREADS_STALE', 'GAP'].map((name) => `SHARDFW_${name}`),
);

// What a message of the stream says: `d`, or of a stub for what was too large its type and size, to ask REST for it.
function dataOf(kind, { d = null, type = null, size = null }) {
  return kind === 'SHARDFW_OVERSIZE' ? { type, size } : d;
}

// The body of a message; undefined when it is no object of JSON.
function bodyOf(message) {
  try {
    const body = message.json();
    return body && typeof body === 'object' && !Array.isArray(body) ? body : undefined;
  } catch {
    return undefined;
  }
}

// The event of a message; undefined of a notice, and when no node wrote it.
function eventOf(message) {
  const id = message.headers?.get('Nats-Msg-Id') ?? '';
  const words = new Map((message.headers?.get('Shardfw') ?? '').split(' ').map((w) => w.split('=')));
  const dash = id.lastIndexOf('-');
  const [number, type] = message.subject.split('.').slice(-2);
  const numbers = [number, words.get('g') || NaN, id.slice(dash + 1) || NaN].map(Number);
  const body = bodyOf(message);
  if (dash < 1 || !numbers.every(Number.isInteger) || NOTICES.has(type) || !body) return undefined;
  const [shard, generation, sequence] = numbers;
  return {
    id,
    shard,
    type,
    generation,
    session: id.slice(0, dash),
    sequence,
    place: message.seq, // in the stream
    data: dataOf(type, body),
  };
}

class Shard {
  began = new Map(); // generation to the place of its first event
  last; // the newest event of the newest session

  // Whether a former owner published it after the next one had begun. One of the session that the
  // new owner goes on with counts: the new owner's copy of it has the same Msg-Id, so the stream
  // drops whichever of both comes second.
  isStale(event) {
    const late = [...this.began].some(([g, at]) => g > event.generation && at < event.place);
    return late && this.last?.session !== event.session;
  }

  // Says what may be missing before an event, and remembers the event.
  notices(event) {
    const last = this.last;
    if (last && event.place < last.place) return []; // delivered a second time, behind newer ones
    if (!this.began.has(event.generation)) this.began.set(event.generation, event.place);
    const fills = last?.session === event.session && event.sequence < last.sequence;
    if (fills) return []; // the stream had refused it at first
    this.last = event;
    const { shard } = event;
    if (last?.session !== event.session) {
      const told = last || event.type === 'READY';
      return told ? [{ notice: 'NEW_SESSION', shard, after: last?.sequence ?? null }] : [];
    }
    const [first, end] = [last.sequence + 1, event.sequence - 1];
    return first <= end ? [{ notice: 'GAP', shard, first, last: end }] : [];
  }
}

const seen = new Set();
const shards = new Map();

// The event and the notices before it; nothing when it is not to be used.
function take(event) {
  if (seen.has(event.id)) return [];
  seen.add(event.id);
  if (seen.size > SEEN_MAX) seen.delete(seen.values().next().value);
  if (!shards.has(event.shard)) shards.set(event.shard, new Shard());
  const shard = shards.get(event.shard);
  if (shard.isStale(event)) return [];
  const { sequence: s, type, data: d } = event;
  return [...shard.notices(event), { shard: event.shard, type, s, d }];
}

const client = await connect({ servers: values.server, ...login });
const manager = await jetstreamManager(client, { checkAPI: false });
const { ack_floor: done } = await manager.consumers.add(STREAM, {
  durable_name: values.durable,
  filter_subject: `shardfw.${values.bot}.ev.>`,
  ack_policy: AckPolicy.Explicit,
});
const { first_seq: first } = (await manager.streams.info(STREAM)).state;
if (done.stream_seq > 0 && done.stream_seq < first - 1) {
  // While no reader was here the stream dropped its oldest, of this bot or of another one.
  console.log(JSON.stringify({ notice: 'DROPPED', after: done.stream_seq, before: first }));
}
const consumer = await jetstream(client).consumers.get(STREAM, values.durable);
let left = Number(values.count);
while (left > 0) {
  const messages = await consumer.fetch({ max_messages: Math.min(BATCH, left), expires: WAIT_MS });
  for await (const message of messages) {
    const event = eventOf(message);
    for (const line of event ? take(event) : []) console.log(JSON.stringify(line));
    message.ack(); // only what is done with is acknowledged; the rest is delivered again
    left -= 1;
  }
}
await client.drain();
