// Drives @discordjs/ws: identifies, collects the load counters of every dispatch, and
// prints them as one JSON list when its standard input ends.
import { WebSocketManager, WebSocketShardEvents } from '@discordjs/ws';

const [url, counterKey] = process.argv.slice(2);
const counters = [];

const manager = new WebSocketManager({
  token: process.env.DISCORD_TOKEN,
  intents: 1 << 0,
  shardCount: 1,
  fetchGatewayInformation: async () => ({
    url,
    shards: 1,
    session_start_limit: { total: 1000, remaining: 1000, reset_after: 0, max_concurrency: 1 },
  }),
});
manager.on(WebSocketShardEvents.Dispatch, (payload) => {
  if (payload.d && counterKey in payload.d) counters.push(payload.d[counterKey]);
});
manager.on(WebSocketShardEvents.Error, (error) => console.error(error));

await manager.connect();
process.stdin.resume();
process.stdin.on('end', async () => {
  process.stdout.write(JSON.stringify(counters), () => process.exit(0));
});
