// Holds shards with @discordjs/ws and tells how many dispatches came.
//
//     node peer.mjs LIBRARY PORT SHARDS
//
// Each line on standard input is answered by one line of JSON: shard id to the number of dispatches.
import { createInterface } from 'node:readline';
import { WebSocketManager, WebSocketShardEvents } from '@discordjs/ws';

const [, port, shards] = process.argv.slice(2);
const token = 'MTEwMDAwMDAwMDAwMDAwMDAwMQ==.aaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbb';
const counts = Object.fromEntries(Array.from({ length: Number(shards) }, (_, id) => [id, 0]));

const manager = new WebSocketManager({
  token,
  intents: 513,
  shardCount: Number(shards),
  rest: {
    get: async (route) => {
      const headers = { authorization: `Bot ${token}` };
      const answer = await fetch(`http://127.0.0.1:${port}/api/v10${route}`, { headers });
      return answer.json();
    },
  },
});
manager.on(WebSocketShardEvents.Dispatch, (_payload, shard) => {
  counts[shard] += 1;
});
manager.on(WebSocketShardEvents.Error, (error) => console.error(error));

const questions = createInterface({ input: process.stdin });
questions.on('line', () => console.log(JSON.stringify(counts)));
questions.on('close', () => process.exit(0));
await manager.connect();
