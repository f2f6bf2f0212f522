// Who logs in, by the variables that `shardfw fleet` reads too: SHARDFW_NATS_USER and SHARDFW_NATS_PASSWORD, or
// SHARDFW_NATS_NKEY (a seed, SU...); SHARDFW_NATS_CA is the file of the CA that vouches for servers with TLS.
import { nkeyAuthenticator } from '@nats-io/transport-node';

const {
  SHARDFW_NATS_USER: user,
  SHARDFW_NATS_PASSWORD: pass,
  SHARDFW_NATS_NKEY: seed,
  SHARDFW_NATS_CA: caFile,
} = process.env;

// The options of `connect`.
export const login = {
  ...(user && { user, pass }),
  ...(seed && { authenticator: nkeyAuthenticator(new TextEncoder().encode(seed)) }),
  ...(caFile && { tls: { caFile } }),
};
