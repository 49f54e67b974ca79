/**
 * Wallet actions for viem whose transactions the manager signs:
 *
 * ```ts
 * const wallet = createWalletClient({ chain, transport: http() }).extend(lockstepActions(txm));
 * ```
 *
 * @module
 */
import { walletActions, type Account, type Chain, type Client, type Transport, type WalletActions } from "viem";
import { FateError, LockstepError, TxManager, unexecuted, type Intent, type IntentDefaults, type SendOptions } from "./index.js";

/** What is added to each intent, and how it is handed over. An address as the client's account is the `pin`. */
export type LockstepOptions = IntentDefaults & {
  /** The manager's name of the chain; its chain id if left out. */
  chain?: string | undefined;
} & Pick<SendOptions, "idempotencyKey" | "timeout" | "signal">;

/** viem's wallet actions, by a transaction manager. None of them needs an account. */
export type LockstepActions<C extends Chain | undefined = Chain | undefined> = Pick<WalletActions<C, Account>, "sendTransaction" | "writeContract" | "deployContract"> & {
  /** These actions with other options, such as the idempotency key of the next transaction: `wallet.with({ idempotencyKey }).sendTransaction(…)`. */
  with(options: LockstepOptions): LockstepActions<C>;
};

/**
 * Makes `sendTransaction`, `writeContract` and `deployContract` of a client hand their transactions to a manager. They return the hash when
 * the transaction is on its way, and throw the errors of this package as they are. The client needs no account, or an address: what would be
 * signed here is refused.
 */
export function lockstepActions(txm: TxManager, options: LockstepOptions = {}) {
  return <C extends Chain | undefined>(client: Client<Transport, C, Account | undefined>): LockstepActions<C> => {
    if (client.account && client.account.type !== "json-rpc") {
      throw new TypeError("the client has an account that signs by itself, and the transaction manager has its own keys: leave the account out, or name one of the manager's by its address");
    }
    const request = async (asked: { method: string; params?: unknown }, more?: unknown): Promise<unknown> => {
      if (asked.method === "eth_sendTransaction") return post(txm, options, (asked.params as [Asked])[0], () => client.request({ method: "eth_chainId" } as never) as Promise<string>);
      if (/^(eth_sign|personal_sign|eth_sendRawTransaction|wallet_send)/.test(asked.method)) {
        throw new LockstepError("UNSUPPORTED", `${asked.method}: the transaction manager signs transactions that it sends, and nothing else`);
      }
      return client.request(asked as never, more as never);
    };
    // A client that is extended twice has the actions of before, which know another way to send.
    const bare = Object.fromEntries(Object.entries(client).filter(([name]) => fields.includes(name)));
    const actions = walletActions({ ...bare, account: client.account ?? null, request } as unknown as Client<Transport, C, Account>) as unknown as Record<string, unknown>;
    for (const [name, action] of Object.entries(actions)) {
      if (typeof action === "function") actions[name] = (...args: unknown[]) => plainly(action(...args));
    }
    return { ...actions, with: (other: LockstepOptions) => lockstepActions(txm, { ...options, ...other })(client) } as unknown as LockstepActions<C>;
  };
}

/** What viem's clients have besides actions. */
const fields = [
  "batch", "cacheTime", "ccipRead", "chain", "dataSuffix", "experimental_blockTag", "key", "name", "pollingInterval", "tokens", "transport", "type", "uid",
];

/** Throws our errors as they are, and not inside of viem's. */
async function plainly(result: unknown): Promise<unknown> {
  try {
    return await result;
  } catch (err) {
    for (let cause: unknown = err, depth = 0; cause instanceof Error && depth < 10; cause = cause.cause, depth++) {
      if (cause instanceof LockstepError) throw cause;
    }
    throw err;
  }
}

/** A transaction as eth_sendTransaction has it. */
interface Asked {
  from?: string; to?: string; value?: string; data?: string; gas?: string; gasPrice?: string; maxFeePerGas?: string; maxPriorityFeePerGas?: string;
  nonce?: string; chainId?: string; accessList?: unknown[]; authorizationList?: unknown[]; blobs?: unknown[];
}

async function post(txm: TxManager, options: LockstepOptions, asked: Asked, chainId: () => Promise<string>): Promise<string> {
  if (asked.nonce !== undefined) throw new LockstepError("UNSUPPORTED", "nonce: the transaction manager draws the nonces; leave it out");
  for (const name of ["accessList", "authorizationList", "blobs"] as const) {
    if (asked[name]?.length) throw new LockstepError("UNSUPPORTED", `${name}: the transaction manager takes none`);
  }
  const { chain, idempotencyKey, timeout, signal, ...defaults } = options;
  const intent: Intent = { ...defaults, chain: chain ?? String(BigInt(asked.chainId ?? await chainId())) };
  if (asked.from !== undefined) {
    if (options.pin && options.pin.toLowerCase() !== asked.from.toLowerCase()) throw new LockstepError("UNSUPPORTED", `from: these actions are those of ${options.pin}`);
    intent.pin = asked.from;
  }
  for (const name of ["to", "value", "data", "gas", "maxPriorityFeePerGas"] as const) {
    if (asked[name] != null) intent[name] = asked[name];
  }
  const max = asked.maxFeePerGas ?? asked.gasPrice;
  if (max !== undefined) intent.maxFeePerGas = max;
  const tx = await txm.send(intent, { idempotencyKey, timeout, signal, wait: "broadcast" });
  if (!tx.hash || unexecuted(tx)) throw new FateError(tx);
  return tx.hash;
}
