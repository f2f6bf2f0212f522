// Drives @discordjs/ws: identifies, collects the load counters of every dispatch, and
// prints them as one JSON list when its standard input ends.
import { WebSocketManager, WebSocketShardEvents } from '@discordjs/ws';

const [httpUrl, counterKey] = process.argv.slice(2);
const token = process.env.DISCORD_TOKEN;
const counters = [];

const manager = new WebSocketManager({
  token,
  intents: 1 << 0,
  rest: {
    get: async (route) => {
      const answer = await fetch(httpUrl + route, { headers: { authorization: `Bot ${token}` } });
      return answer.json();
    },
  },
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
