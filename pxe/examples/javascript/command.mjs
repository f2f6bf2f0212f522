// Sends a command to the node that owns a shard, and prints its answer.
//
//     node command.mjs --bot b1 --shard 0 '{"op":3,"d":{"since":null,"activities":[],"status":"idle","afk":false}}'
//
// The commands: firmware/docs/fleet.md#commands.
import { parseArgs } from 'node:util';
import { connect, errors } from '@nats-io/transport-node';
import { login } from './login.mjs';

const WAIT_MS = 5000;
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    server: { type: 'string', default: '127.0.0.1:4222' },
    bot: { type: 'string' },
    shard: { type: 'string' },
  },
});

const client = await connect({ servers: values.server, ...login });
try {
  const subject = `shardfw.${values.bot}.cmd.${values.shard}`;
  const answer = await client.request(subject, positionals[0], { timeout: WAIT_MS });
  console.log(answer.string());
  process.exitCode = answer.json().ok ? 0 : 1;
} catch (error) {
  if (error instanceof errors.TimeoutError) {
    console.error('no answer: it may have been done, or not');
  } else if (error instanceof errors.RequestError && error.isNoResponders()) {
    console.error(`no node owns shard ${values.shard} now`);
  } else throw error;
  process.exitCode = 1;
} finally {
  await client.close();
}
