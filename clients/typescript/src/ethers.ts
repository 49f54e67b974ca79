/**
 * A signer for ethers 6 whose transactions the manager signs:
 *
 * ```ts
 * const signer = new LockstepSigner(txm, provider); // instead of new Wallet(key, provider)
 * ```
 *
 * @module
 */
import {
  AbstractSigner, Signature, TransactionResponse, TransactionReceipt, getAddress, hexlify, isError, makeError, resolveAddress,
  type Provider, type TransactionRequest, type TransactionResponseParams,
} from "ethers";
import { FateError, TxManager, unexecuted, type Intent, type IntentDefaults, type SendOptions, type Transaction } from "./index.js";

/** What a signer adds to each intent, and how it hands it over. `pin` names the account that signs; without it the manager chooses. */
export type LockstepSignerOptions = IntentDefaults & {
  /** The manager's name of the chain; the provider's chain id if left out. */
  chain?: string | undefined;
} & Pick<SendOptions, "idempotencyKey" | "timeout" | "signal">;

/** Sends by a transaction manager. It holds no key, draws no nonce, and signs no message. */
export class LockstepSigner extends AbstractSigner<Provider> {
  readonly txm: TxManager;
  readonly #options: LockstepSignerOptions;
  readonly #node: Provider;

  constructor(txm: TxManager, provider: Provider, options: LockstepSignerOptions = {}) {
    super(following(txm, provider));
    this.txm = txm;
    this.#node = provider;
    this.#options = options;
  }

  /** This signer with other options, such as the idempotency key of the next transaction: `contract.connect(signer.with({ idempotencyKey }))`. */
  with(options: LockstepSignerOptions): LockstepSigner {
    return new LockstepSigner(this.txm, this.#node, { ...this.#options, ...options });
  }

  override connect(provider: Provider | null): LockstepSigner {
    if (!provider) throw makeError("a LockstepSigner needs a provider", "UNSUPPORTED_OPERATION", { operation: "connect" });
    return new LockstepSigner(this.txm, provider, this.#options);
  }

  /** The account that signs: `pin`, or the only one that the manager has on the chain, or in `pool`. */
  override async getAddress(): Promise<string> {
    const { pin, pool, signal } = this.#options;
    if (pin) return getAddress(pin);
    const chain = await this.#chain();
    const list = await this.txm.call("GET /v1/signers", { query: { chain } }, { signal });
    const of = (list.signers ?? []).filter((signer) => signer.ours && signer.chain === chain && (!pool || signer.pools?.includes(pool)));
    if (of.length === 1 && of[0]) return getAddress(of[0].address);
    throw makeError(`the manager has ${of.length} signers for this, and chooses one for each transaction; name one by the option pin`, "UNSUPPORTED_OPERATION", { operation: "getAddress" });
  }

  /** Hands the transaction over, and returns when it is on its way. */
  override async sendTransaction(tx: TransactionRequest): Promise<TransactionResponse> {
    const { chain: _, idempotencyKey, timeout, signal, ...defaults } = this.#options;
    const intent: Intent = { ...defaults, chain: await this.#chain(tx.chainId), ...(await this.#fields(tx)) };
    const sent = await this.txm.send(intent, { idempotencyKey, timeout, signal, wait: "broadcast" });
    const full = await this.txm.wait(sent.id, { until: "broadcast", timeout: 0, signal }); // with its attempts
    if (!full.hash || unexecuted(full)) throw new FateError(full);
    remember(this.provider, full);
    return new LockstepTransactionResponse(this.txm, this.provider, full);
  }

  async #chain(asked?: unknown): Promise<string> {
    if (asked == null && this.#options.chain) return this.#options.chain;
    const id = (await this.#node.getNetwork()).chainId;
    if (asked != null && BigInt(asked as bigint) !== id) {
      throw makeError(`the transaction is for chain ${asked}, and the provider is on ${id}`, "INVALID_ARGUMENT", { argument: "chainId", value: asked });
    }
    return this.#options.chain ?? String(id);
  }

  async #fields(tx: TransactionRequest): Promise<Partial<Intent>> {
    const refuse = (name: string, why: string): never => {
      throw makeError(`${name}: ${why}`, "UNSUPPORTED_OPERATION", { operation: "sendTransaction", info: { [name]: (tx as Record<string, unknown>)[name] } });
    };
    if (tx.nonce != null) refuse("nonce", "the transaction manager draws the nonces; leave it out");
    if (tx.accessList && Object.keys(tx.accessList).length > 0) refuse("accessList", "the transaction manager takes none");
    if (tx.authorizationList?.length) refuse("authorizationList", "the transaction manager takes none");
    if (tx.blobs?.length || tx.blobVersionedHashes?.length) refuse("blobs", "the transaction manager takes none");
    const fields: Partial<Intent> = {};
    if (tx.to != null) fields.to = await resolveAddress(tx.to, this.#node);
    if (tx.from != null) {
      fields.pin = await resolveAddress(tx.from, this.#node);
      if (this.#options.pin && fields.pin.toLowerCase() !== this.#options.pin.toLowerCase()) refuse("from", `this signer is ${this.#options.pin}`);
    }
    if (tx.value != null) fields.value = BigInt(tx.value);
    if (tx.data != null) fields.data = hexlify(tx.data);
    if (tx.gasLimit != null) fields.gas = BigInt(tx.gasLimit);
    const max = tx.maxFeePerGas ?? tx.gasPrice;
    if (max != null) fields.maxFeePerGas = BigInt(max);
    if (tx.maxPriorityFeePerGas != null) fields.maxPriorityFeePerGas = BigInt(tx.maxPriorityFeePerGas);
    return fields;
  }

  // Reads need no account where the manager has several.
  override async call(tx: TransactionRequest): Promise<string> { return this.provider.call(await this.#asked(tx)); }
  override async estimateGas(tx: TransactionRequest): Promise<bigint> { return this.provider.estimateGas(await this.#asked(tx)); }
  async #asked(tx: TransactionRequest): Promise<TransactionRequest> {
    const { nonce: _, ...asked } = tx;
    if (asked.from == null) {
      await this.getAddress().then((from) => { asked.from = from; }, (err) => { if (!isError(err, "UNSUPPORTED_OPERATION")) throw err; });
    }
    return asked;
  }

  override async signTransaction(): Promise<string> { throw noSignature("signTransaction"); }
  override async signMessage(): Promise<string> { throw noSignature("signMessage"); }
  override async signTypedData(): Promise<string> { throw noSignature("signTypedData"); }
}

function noSignature(operation: string): Error {
  return makeError("the transaction manager signs transactions that it sends, and nothing else", "UNSUPPORTED_OPERATION", { operation });
}

/** A transaction that is on its way. Its hash may change while it waits, when the manager raises its fee; `wait` knows. */
export class LockstepTransactionResponse extends TransactionResponse {
  /** The manager's id of the transaction. */
  readonly id: string;
  readonly #txm: TxManager;
  readonly #params: TransactionResponseParams;

  constructor(txm: TxManager, provider: Provider, tx: Transaction) {
    const params = paramsOf(tx);
    super(params, provider);
    this.id = tx.id;
    this.#txm = txm;
    this.#params = params;
  }

  /**
   * As ethers has it, for whichever of its hashes is mined: a revert is a CALL_EXCEPTION.
   *
   * @throws {FateError} It has ended without being executed.
   */
  override async wait(confirms = 1, timeout = 0): Promise<TransactionReceipt | null> {
    const began = Date.now();
    const tx = await this.#txm.wait(this.id, { until: "mined", timeout: confirms === 0 ? 0 : timeout || Infinity });
    if (unexecuted(tx)) throw new FateError(tx);
    if (!tx.receipt && confirms === 0) return null;
    if (!tx.receipt) throw makeError("wait for transaction timeout", "TIMEOUT", { operation: "waitForTransaction", reason: "timeout" });
    const mined = new TransactionResponse({ ...this.#params, hash: tx.receipt.transactionHash }, this.provider);
    return mined.wait(confirms, timeout && Math.max(1, timeout - (Date.now() - began)));
  }
}

function paramsOf(tx: Transaction): TransactionResponseParams {
  const attempt = tx.attempts?.find((one) => one.hash === tx.hash);
  const tip = attempt?.maxPriorityFeePerGas, max = BigInt(attempt?.maxFeePerGas ?? 0);
  return {
    hash: tx.hash ?? "", from: getAddress(tx.signer ?? ""), to: tx.to ? getAddress(tx.to) : null, nonce: tx.nonce ?? 0,
    data: tx.data || "0x", value: BigInt(tx.value ?? 0), gasLimit: BigInt(attempt?.gas ?? tx.gas ?? 0), chainId: BigInt(tx.chain),
    type: tip === undefined ? 0 : 2, gasPrice: max, maxFeePerGas: tip === undefined ? null : max, maxPriorityFeePerGas: tip === undefined ? null : BigInt(tip),
    // The manager does not show signatures; the node does, by the hash.
    signature: Signature.from(), accessList: null, blockHash: null, blockNumber: null, index: 0,
  } as unknown as TransactionResponseParams;
}

// A contract wraps what sendTransaction returns and waits by the provider, for the hash that the transaction had at first. So the provider of
// a LockstepSigner asks the manager for the hash that counts, of the last transactions that were sent by it.
const remembered = 1000;
const sentBy = new WeakMap<Provider, Map<string, string>>();

function remember(provider: Provider, tx: Transaction): void {
  const sent = sentBy.get(provider);
  if (!sent || !tx.hash) return;
  sent.set(tx.hash, tx.id);
  for (const oldest of sent.keys()) {
    if (sent.size <= remembered) break;
    sent.delete(oldest);
  }
}

function following(txm: TxManager, node: Provider): Provider {
  const sent = new Map<string, string>();
  const waiting = new Map<unknown, { stop: AbortController; hash?: string }>();
  const listen = async (id: string, listener: (receipt: unknown) => void): Promise<void> => {
    const entry: { stop: AbortController; hash?: string } = { stop: new AbortController() };
    waiting.set(listener, entry);
    try {
      const tx = await txm.wait(id, { until: "mined", timeout: Infinity, signal: entry.stop.signal });
      if (unexecuted(tx) || !tx.receipt) throw new FateError(tx);
      await node.on(entry.hash = tx.receipt.transactionHash, listener as never);
    } catch (err) {
      // There is no receipt, and the one who waits looks at its status: there it hears why.
      if (!entry.stop.signal.aborted) listener({ confirmations: async () => Infinity, get status() { throw err; } });
    }
  };
  const own: Record<string, unknown> = {
    getTransactionReceipt: async (hash: string) => {
      const id = sent.get(hash);
      if (!id) return node.getTransactionReceipt(hash);
      const tx = await txm.get(id);
      if (unexecuted(tx)) throw new FateError(tx);
      return tx.receipt ? node.getTransactionReceipt(tx.receipt.transactionHash) : null;
    },
    on: async (event: unknown, listener: (receipt: unknown) => void) => {
      const id = typeof event === "string" ? sent.get(event) : undefined;
      if (id) void listen(id, listener);
      else await node.on(event as string, listener as never);
      return proxy;
    },
    off: async (event: unknown, listener?: (receipt: unknown) => void) => {
      const entry = typeof event === "string" && sent.has(event) ? waiting.get(listener) : undefined;
      if (!entry) await node.off(event as string, listener as never);
      else {
        entry.stop.abort();
        waiting.delete(listener);
        if (entry.hash) await node.off(entry.hash, listener as never);
      }
      return proxy;
    },
  };
  const proxy: Provider = new Proxy(node, {
    get(target, name) {
      if (typeof name === "string" && name in own) return own[name];
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  sentBy.set(proxy, sent);
  return proxy;
}
