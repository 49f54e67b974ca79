// Made from the manager's OpenAPI document by `go test ./txmgr/api -run TestTypeScript -update`. Do not edit.

/** The `code` of an answer that is an error. */
export type Code =
  | "ADDRESS"
  | "BUDGET"
  | "BUSY"
  | "DUPLICATE"
  | "FORBIDDEN"
  | "HALTED"
  | "IDEMPOTENCY_KEY_FORGOTTEN"
  | "IDEMPOTENCY_KEY_REUSED"
  | "INTERNAL"
  | "INVALID"
  | "KILLED"
  | "LOCKED"
  | "NONCE_CONFLICT"
  | "NOT_FOUND"
  | "NOT_POSSIBLE"
  | "NO_RESERVATION"
  | "POLICY"
  | "RATE_LIMIT"
  | "REPLAYED"
  | "TOO_LATE"
  | "TOO_MANY_RESERVATIONS"
  | "TOO_MANY_WEBHOOKS"
  | "UNAUTHORIZED"
  | "UNAVAILABLE"
  | "UNCERTAIN"
  | "UNKNOWN_CHAIN"
  | "UNKNOWN_SIGNER"
  | "WOULD_REVERT";

export interface AddSignerInputBody {
  address: string;
  /** A chain: its number as decimal text, 0x text or an integer. */
  chain: bigint | number | string;
  /** Besides default, which holds every signer whose key is here. */
  pools?: string[] | null;
}

export interface Attempt {
  error?: Failure;
  gas: number;
  hash: string;
  /** An amount in the chain's smallest unit: decimal text, 0x text or an integer. */
  maxFeePerGas?: string;
  /** An amount in the chain's smallest unit: decimal text, 0x text or an integer. */
  maxPriorityFeePerGas?: string;
  nonce: number;
  offers: number;
  purpose: string;
  /** A time: RFC 3339, or seconds since 1970. */
  sentAt?: string;
  /** A time: RFC 3339, or seconds since 1970. */
  signedAt?: string;
  state: string;
  version: number;
}

export interface Budget {
  /** None: the budget is the tenant's. */
  actor?: string;
  /** For transactions that have no fate yet, at the highest price that they can reach. */
  held: string;
  /** An amount in the chain's smallest unit: decimal text, 0x text or an integer. */
  limit: string;
  policy: string;
  /** What those with a fate have cost. */
  settled: string;
  tenant?: string;
}

export interface BudgetsOutBody {
  /** Those that were used that day; a maximum of 500. */
  budgets: Budget[] | null;
  /** In UTC, such as 2026-01-31. */
  day: string;
}

export interface CreateKeyRequest {
  label?: string;
  /** From where it may be used: networks such as 203.0.113.0/24, and addresses. None: from everywhere. */
  networks?: string[] | null;
  role: "read" | "send" | "admin";
  /** Whose transactions it sees; none: all tenants'. */
  tenant?: string;
}

export interface CreateWebhookRequest {
  events?: string[] | null;
  url: string;
}

export interface DeliveriesOutBody {
  deliveries: Delivery[];
}

export interface Delivery {
  /** HTTP status of the last answer. */
  answer?: number;
  attempts: number;
  body?: unknown;
  createdAt?: string;
  doneAt?: string;
  error?: string;
  /** The webhook-id header. */
  id: string;
  nextAt?: string;
  sequence: number;
  status: "pending" | "delivered" | "dead";
  subject: string;
  type: string;
}

export interface ErrorDetail {
  /** Where the error occurred, e.g. 'body.items[3].tags' or 'path.thing-id' */
  location?: string;
  /** Error message text */
  message?: string;
  /** The value at the given location */
  value?: unknown;
}

export interface ExecuteInputBody {
  idempotencyKey: string;
  intent: IntentBody;
  /** Intents of one key are executed in the order of their acceptance. */
  key: string;
  /** How long to follow it; 25s if not given. Ask again with the same body to go on. */
  timeout?: string;
  /** How far it must have come to be done; mined if not given. */
  until?: "mined" | "confirmed";
}

export interface Failure {
  class: string;
  message: string;
}

export interface FeeView {
  /** An amount in the chain's smallest unit: decimal text, 0x text or an integer. */
  maxFeePerGas: string;
  /** An amount in the chain's smallest unit: decimal text, 0x text or an integer. */
  maxPriorityFeePerGas?: string;
}

export interface FeesOutBody {
  /** A time: RFC 3339, or seconds since 1970. */
  at: string;
  /** None on a chain without one. */
  baseFee?: string;
  chain: string;
  speeds: { [name: string]: FeeView };
}

export interface Health {
  address: string;
  chain: string;
  chainNonce: number;
  gapCount: number;
  halted?: string;
  /** Such as 45s. */
  oldestPendingAge: string;
  owner?: string;
  pendingCount: number;
  /** The next nonce that will be given out. */
  trackedNonce: number;
}

export interface HooksOutBody {
  webhooks: Webhook[];
}

export interface IntentBody {
  /** The contract's ABI, or a compiler's artefact that has it. */
  abi?: unknown;
  /** Addresses and storage slots that it will touch (EIP-2930). */
  accessList?: unknown;
  /** On NEAR, instead of data and value: the actions of the transaction, in the form in which nodes show them (docs/TXM.md). */
  actions?: unknown;
  /** Who it is for; budgets and rates know it. */
  actor?: string;
  /** Arguments of the function or of the constructor: numbers as integers, decimal text or 0x text, bytes as 0x text, tuples as lists. */
  args?: unknown[] | null;
  /** Signed delegations of accounts to code (EIP-7702). */
  authorizationList?: unknown;
  /** Instead of to and data: deploys this code. Arguments of its constructor are args, their types those of function (constructor(string name)) or of the abi. */
  bytecode?: string;
  /** A chain: its number as decimal text, 0x text or an integer. */
  chain: bigint | number | string;
  /** Bytes as 0x text. */
  data?: string;
  /** Instead of data: the function to call, as transfer(address to,uint256 amount), or by its name alone with an abi. */
  function?: string;
  /** Gas limit, more than 0; none: estimated. */
  gas?: bigint | number | string;
  /** The price per gas, of a transaction without a tip; instead of maxFeePerGas and maxPriorityFeePerGas. */
  gasPrice?: bigint | number | string;
  /** Like the header Idempotency-Key, which wins. */
  idempotencyKey?: string;
  /** Never cancelled for its age alone. */
  keepTrying?: boolean;
  /** An amount in the chain's smallest unit: decimal text, 0x text or an integer. */
  maxFeePerGas?: bigint | number | string;
  /** An amount in the chain's smallest unit: decimal text, 0x text or an integer. */
  maxPriorityFeePerGas?: bigint | number | string;
  metadata?: unknown;
  method?: string;
  onFailure?: "stop" | "continue";
  /** Intents of one order key are executed in the order of their acceptance. */
  orderKey?: string;
  /** The signer to use. */
  pin?: string;
  pool?: string;
  requestId?: string;
  /** Intents of one shard key prefer one signer. */
  shardKey?: string;
  simulate?: "latest" | "pending" | "off";
  speed?: "slow" | "standard" | "fast";
  /** Orders webhooks. */
  subject?: string;
  /** Receiver; none deploys the contract in data. */
  to?: string;
  /** A time: RFC 3339, or seconds since 1970. */
  validUntil?: Date | number | string;
  /** An amount in the chain's smallest unit: decimal text, 0x text or an integer. */
  value?: bigint | number | string;
}

export interface Key {
  createdAt?: string;
  id: string;
  label?: string;
  lastUsedAt?: string;
  /** From where it may be used; none: from everywhere. */
  networks?: string[] | null;
  revokedAt?: string;
  role: string;
  tenant?: string;
  /** The key itself; shown when it is made, and never again. */
  token?: string;
}

export interface KeysOutBody {
  keys: Key[];
}

export interface KillInputBody {
  on: boolean;
  reason?: string;
  /** all, chain/ID, pool/ID/NAME or signer/ID/ACCOUNT. */
  scope: string;
}

export interface KillsOutBody {
  /** Those that are on, with their reasons. */
  switches: { [name: string]: string };
}

export interface ListBody {
  /** Of the next page; none at the end. */
  cursor?: string;
  transactions: Transaction[] | null;
}

export interface LockRequest {
  address: string;
  /** A chain: its number as decimal text, 0x text or an integer. */
  chain: bigint | number | string;
  requestId?: string;
}

export interface NonceState {
  address: string;
  chainNonce: number;
  gapCount: number;
  /** Such as 45s. */
  oldestPendingAge: string;
  pendingCount: number;
  /** The next nonce that will be given out. */
  trackedNonce: number;
}

export interface OlderAccount {
  address: string;
  /** Of unlock, which needs it. */
  lockId?: string;
  /** A chain: its number as decimal text, 0x text or an integer. */
  networkId: bigint | number | string;
  /** Of recycle, which needs it. */
  nonce?: bigint | number | string;
  /** Of lock. */
  requestId?: string;
  [more: string]: unknown;
}

export interface OlderConflict {
  attemptedNonce: number;
  currentNonce: number;
  error: string;
  shouldRetry: boolean;
  [more: string]: unknown;
}

export interface OlderError {
  error: string;
  message: string;
  [more: string]: unknown;
}

export interface OlderFee {
  gasPrice: string | null;
  maxFeePerGas: string | null;
  maxPriorityFeePerGas: string | null;
}

export interface OlderHash {
  txHash: string;
}

export interface OlderLock {
  lockId: string;
  nonce: number;
}

export interface OlderNetwork {
  /** A chain: its number as decimal text, 0x text or an integer. */
  networkId: bigint | number | string;
  [more: string]: unknown;
}

export interface OlderNonce {
  nonce: number;
}

export interface OlderRaw {
  /** A chain: its number as decimal text, 0x text or an integer. */
  networkId: bigint | number | string;
  /** Bytes as 0x text. */
  rawTx: string;
  [more: string]: unknown;
}

export interface OlderSend {
  /** Bytes as 0x text. */
  data?: string;
  from?: string;
  /** A number with a maximum of 64 bits. */
  gasLimit?: bigint | number | string;
  /** Like the header Idempotency-Key, which wins. */
  idempotencyKey?: string;
  /** A chain: its number as decimal text, 0x text or an integer. */
  networkId: bigint | number | string;
  to?: string;
  /** An amount in the chain's smallest unit: decimal text, 0x text or an integer. */
  value?: bigint | number | string;
  [more: string]: unknown;
}

export interface OlderSent {
  id: string;
  txHash: string | null;
}

export interface Outcome {
  blockHash?: string;
  blockNumber?: number;
  contractAddress?: string;
  error?: string;
  final: boolean;
  gasUsed?: number;
  id: string;
  status: string;
}

export interface PauseInputBody {
  reason?: string;
}

export interface PoliciesOutBody {
  policies: Policy[];
}

export interface Policy {
  createdAt?: string;
  disabled?: boolean;
  id?: string;
  rules: Rules;
  /** None: all tenants. */
  tenant?: string;
  updatedAt?: string;
}

export interface Pool {
  chain: string;
  name: string;
  signers: string[] | null;
}

export interface PoolsOutBody {
  pools: Pool[] | null;
}

export interface Problem {
  /** Of NONCE_CONFLICT. */
  attemptedNonce?: number;
  /** What programs branch on. */
  code: string;
  /** Of NONCE_CONFLICT. */
  currentNonce?: number;
  /** A human-readable explanation specific to this occurrence of the problem. */
  detail?: string;
  /** Optional list of individual error details */
  errors?: ErrorDetail[] | null;
  /** Of DUPLICATE: the transaction that has these bytes. */
  id?: string;
  /** A URI reference that identifies the specific occurrence of the problem. */
  instance?: string;
  /** Of WOULD_REVERT: what the call returned, as 0x text. */
  output?: string;
  /** Of NONCE_CONFLICT. */
  shouldRetry?: boolean;
  /** HTTP status code */
  status?: number;
  /** A short, human-readable summary of the problem type. This value should not change between occurrences of the error. */
  title?: string;
  /** A URI reference to human-readable documentation for the error. */
  type?: string;
}

export interface RawInputBody {
  actor?: string;
  /** A chain: its number as decimal text, 0x text or an integer. */
  chain: bigint | number | string;
  /** The signed transaction. */
  rawTx: string;
  requestId?: string;
  /** The id that POST /v1/nonces gave. Needed if the caller had this nonce several times. */
  reservation?: string;
  subject?: string;
}

export interface Receipt {
  blockHash: string;
  blockNumber: number;
  contractAddress?: string;
  /** An amount in the chain's smallest unit: decimal text, 0x text or an integer. */
  effectiveGasPrice?: string;
  final: boolean;
  gasUsed: number;
  /** As the chain gave it. */
  raw?: unknown;
  /** Why it failed, as far as its contract or a second try on the same state tells. */
  reason?: string;
  success: boolean;
  transactionHash: string;
}

export interface ReconcileInputBody {
  /** Somebody else's transactions wait: go on after them. */
  adopt?: boolean;
  /** The chain was reset: forget what was on its way. */
  reset?: boolean;
}

export interface Record {
  outcome?: Outcome;
  status: "inflight" | "done" | "failed";
  txHash?: string;
  /** Milliseconds since 1970. */
  updatedAt: number;
}

export interface Recycled {
  recycled: boolean;
}

export interface Reservation {
  address: string;
  chain: string;
  /** A time: RFC 3339, or seconds since 1970. */
  expiresAt: string;
  id: string;
  lockId?: string;
  nonce: number;
  status: "held" | "used" | "recycled" | "expired";
}

export interface ReserveRequest {
  address: string;
  /** A chain: its number as decimal text, 0x text or an integer. */
  chain: bigint | number | string;
}

export interface RotateWebhookRequest {
  /** How long the old secret signs as well; 24h if not given. */
  overlap?: string;
}

export interface Rules {
  actorDailyGas?: string;
  actorPerMinute?: number;
  chains?: string[] | null;
  errors?: string[] | null;
  maxGas?: number;
  maxGasPrice?: string;
  maxValue?: string;
  receivers?: string[] | null;
  selectors?: string[] | null;
  tenantDailyGas?: string;
  tenantPerMinute?: number;
}

export interface SetMinBalanceRequest {
  /** An amount in the chain's smallest unit: decimal text, 0x text or an integer. */
  minBalance: bigint | number | string;
}

export interface Signer {
  address: string;
  /** An amount in the chain's smallest unit: decimal text, 0x text or an integer. */
  balance?: string;
  chain: string;
  chainNonce: number;
  /** How many of its digits are behind the point; amounts are in the smallest unit. */
  decimals?: number;
  draining: boolean;
  enabled: boolean;
  errorStreak: number;
  gaps: number;
  /** Why nothing is signed until an operator reconciles. */
  halted?: string;
  lastError?: string;
  /** A time: RFC 3339, or seconds since 1970. */
  lastSeen?: string;
  /** An amount in the chain's smallest unit: decimal text, 0x text or an integer. */
  minBalance?: string;
  nextNonce: number;
  /** When the oldest of them got its nonce. */
  oldestPendingAt?: string;
  /** The manager holds its key; otherwise its callers sign. */
  ours: boolean;
  owner?: string;
  /** Why it gets no new intents, in words; none if it gets some. */
  passedOver?: string;
  pausedReason?: string;
  pending: number;
  pools: string[] | null;
  term?: number;
  /** Of the chain's money, such as ETH. */
  unit?: string;
}

export interface SignersOutBody {
  signers: Signer[] | null;
}

export interface SimulatedBody {
  gas: number;
  /** The highest price per gas that it can reach. */
  maxGasPrice: string;
  /** gas × price, without the value. */
  maxGasTotal: string;
  /** Bytes as 0x text. */
  output?: string;
  /** Why it would fail. */
  reason?: string;
  success: boolean;
}

export interface Step {
  /** A time: RFC 3339. */
  at: string;
  body: unknown;
  cursor: number;
  kind: string;
}

export interface Transaction {
  /** A time: RFC 3339, or seconds since 1970. */
  acceptedAt?: string;
  actor?: string;
  attempts?: Attempt[] | null;
  cancelling?: boolean;
  chain: string;
  /** Bytes as 0x text. */
  data?: string;
  error?: Failure;
  /** The status never changes again. */
  final: boolean;
  gas?: number;
  /** Of the attempt that was mined, or else of the newest one. */
  hash?: string;
  hashes?: string[] | null;
  id: string;
  idempotencyKey?: string;
  kind: string;
  metadata?: unknown;
  method?: string;
  nonce?: number;
  orderKey?: string;
  pool?: string;
  receipt?: Receipt;
  replaces?: string;
  requestId?: string;
  signer?: string;
  speed?: string;
  status: "accepted" | "assigned" | "signed" | "broadcast" | "unknown" | "mined" | "confirmed" | "reverted" | "failed" | "cancelled" | "expired" | "replaced";
  subject?: string;
  timeline?: Step[] | null;
  to?: string;
  /** A time: RFC 3339, or seconds since 1970. */
  updatedAt?: string;
  /** An amount in the chain's smallest unit: decimal text, 0x text or an integer. */
  value?: string;
  /** Why it does not move on, in words. */
  waiting?: string;
}

export interface UnlockRequest {
  address: string;
  /** A chain: its number as decimal text, 0x text or an integer. */
  chain: bigint | number | string;
  lockId: string;
}

export interface Unlocked {
  unlocked: boolean;
}

export interface UpdateWebhookRequest {
  enabled?: boolean;
  events?: string[];
  url?: string;
}

export interface Webhook {
  createdAt?: string;
  enabled: boolean;
  /** Kinds of events, such as tx.confirmed or tx.*; none is all. */
  events: string[];
  id: string;
  /** Until when the secret before this one signs as well. */
  oldSecretUntil?: string;
  /** Of the signatures; shown when it is made, and never again. */
  secret?: string;
  url: string;
}

/** What each call takes and answers. */
export interface Operations {
  /** Reserve the next nonce of an account. Needs the role `send`. */
  "POST /evm/address/nonce": {
    body: OlderAccount;
    answer: OlderNonce;
  };
  /** Have an account alone, with its next nonce. Needs the role `send`. */
  "POST /evm/address/nonce/lock": {
    body: OlderAccount;
    answer: OlderLock;
  };
  /** Give a nonce back that was not used. Needs the role `send`. */
  "POST /evm/address/nonce/recycle": {
    body: OlderAccount;
    answer: Recycled;
  };
  /** End a lock. Needs the role `send`. */
  "POST /evm/address/nonce/unlock": {
    body: OlderAccount;
    answer: Unlocked;
  };
  /** What a transaction costs now. Needs the role `send`. */
  "POST /evm/getCurrentFee": {
    body: OlderNetwork;
    answer: OlderFee;
  };
  /** What an account's nonces look like. Needs the role `read`. */
  "GET /evm/nonce/health": {
    query: { "networkId": string; "address": string };
    answer: NonceState;
  };
  /** Hand over an intent. Needs the role `send`. */
  "POST /evm/transaction/send": {
    body: OlderSend;
    answer: OlderSent;
  };
  /** Hand over a transaction that the caller signed. Needs the role `send`. */
  "POST /evm/transaction/sendRaw": {
    body: OlderRaw;
    answer: OlderHash;
  };
  /** For short-lived runtimes: the stored result of a key, or that of the running one. Needs the role `send`. */
  "POST /internal/execute": {
    body: ExecuteInputBody;
    answer: Record;
  };
  /** The API keys, without their tokens. Needs the role `admin`. */
  "GET /v1/api-keys": {
    answer: KeysOutBody;
  };
  /** Make an API key; its token is shown this once. Needs the role `admin`. */
  "POST /v1/api-keys": {
    body: CreateKeyRequest;
    answer: Key;
  };
  /** End an API key. Needs the role `admin`. */
  "DELETE /v1/api-keys/{id}": {
    path: { "id": string };
    answer: undefined;
  };
  /** What is left of today's budgets. Needs the role `read`. */
  "GET /v1/budgets": {
    answer: BudgetsOutBody;
  };
  /** What fees cost now. Needs the role `read`. */
  "GET /v1/fees": {
    query: { "chain": string };
    answer: FeesOutBody;
  };
  /** The switches that are on. Needs the role `read`. */
  "GET /v1/kill-switch": {
    answer: KillsOutBody;
  };
  /** Stop everything, a chain, a pool or a signer; the manager still follows what is signed. Needs the role `admin`. */
  "POST /v1/kill-switch": {
    body: KillInputBody;
    answer: KillsOutBody;
  };
  /** Reserve the next nonce of an account. Needs the role `send`. While somebody has the account alone, the answer is 423. */
  "POST /v1/nonces": {
    body: ReserveRequest;
    answer: Reservation;
  };
  /** What an account's nonces look like. Needs the role `read`. */
  "GET /v1/nonces/health": {
    query: { "chain": string; "address": string };
    answer: Health;
  };
  /** Have an account alone, with its next nonce. Needs the role `send`. Until the lock is ended, or its time has passed (`expiresAt`), nobody gets another nonce of the account: a reservation, a second lock and a transaction without a reservation get 423, and intents wait. What has its nonce already goes on. The nonce of the lock is a reservation, which counts for the tenant's maximum; its id is the lock's. */
  "POST /v1/nonces/lock": {
    body: LockRequest;
    answer: Reservation;
  };
  /** End a lock. Needs the role `send`. */
  "POST /v1/nonces/unlock": {
    body: UnlockRequest;
    answer: Unlocked;
  };
  /** Give a reservation back that was not used. Needs the role `send`. */
  "POST /v1/nonces/{id}/recycle": {
    path: { "id": string };
    answer: Recycled;
  };
  /** Give a reservation its full time again. Needs the role `send`. */
  "POST /v1/nonces/{id}/renew": {
    path: { "id": string };
    answer: Reservation;
  };
  /** The policies that the caller is under. Needs the role `read`. */
  "GET /v1/policies": {
    answer: PoliciesOutBody;
  };
  /** Make a policy. Needs the role `admin`. */
  "POST /v1/policies": {
    body: Policy;
    answer: Policy;
  };
  /** Change a policy. Needs the role `admin`. */
  "PUT /v1/policies/{id}": {
    path: { "id": string };
    body: Policy;
    answer: Policy;
  };
  /** Remove a policy. Needs the role `admin`. */
  "DELETE /v1/policies/{id}": {
    path: { "id": string };
    answer: undefined;
  };
  /** The pools of signers. Needs the role `read`. */
  "GET /v1/pools": {
    answer: PoolsOutBody;
  };
  /** Read the keys and pools of the settings again. A signer whose key left the settings gets nothing new; what it has signed is followed. */
  "POST /v1/reload": {
    answer: undefined;
  };
  /** The signers and how they are. Needs the role `read`. */
  "GET /v1/signers": {
    query?: { "chain"?: string };
    answer: SignersOutBody;
  };
  /** Make an account a signer of a chain. A request never contains a key. If this process has the account's key, the manager signs for it on the chain and in the pools. Otherwise callers sign themselves. */
  "POST /v1/signers": {
    body: AddSignerInputBody;
    answer: Signer;
  };
  /** Assign nothing more to a signer and let it finish. Needs the role `admin`. */
  "POST /v1/signers/{chain}/{address}/drain": {
    path: { "chain": string; "address": string };
    answer: Signer;
  };
  /** Set the balance below which a signer gets nothing new. Needs the role `admin`. */
  "POST /v1/signers/{chain}/{address}/min-balance": {
    path: { "chain": string; "address": string };
    body: SetMinBalanceRequest;
    answer: Signer;
  };
  /** Give a signer nothing new. Needs the role `admin`. */
  "POST /v1/signers/{chain}/{address}/pause": {
    path: { "chain": string; "address": string };
    body?: PauseInputBody;
    answer: Signer;
  };
  /** End a signer's halt after its cause was found. Needs the role `admin`. */
  "POST /v1/signers/{chain}/{address}/reconcile": {
    path: { "chain": string; "address": string };
    body?: ReconcileInputBody;
    answer: Signer;
  };
  /** Enable a signer again, and end a drain. Needs the role `admin`. */
  "POST /v1/signers/{chain}/{address}/resume": {
    path: { "chain": string; "address": string };
    answer: Signer;
  };
  /** Fill a signer up from the treasury. Needs the role `admin`. */
  "POST /v1/signers/{chain}/{address}/top-up": {
    path: { "chain": string; "address": string };
    answer: Transaction;
  };
  /** Find intents, newest first. Needs the role `read`. */
  "GET /v1/transactions": {
    query?: { "hash"?: string; "idempotencyKey"?: string; "chain"?: string; "signer"?: string; "nonce"?: string; "status"?: "accepted" | "assigned" | "signed" | "broadcast" | "unknown" | "mined" | "confirmed" | "reverted" | "failed" | "cancelled" | "expired" | "replaced"; "cursor"?: string; "limit"?: number };
    answer: ListBody;
  };
  /** Hand over an intent. Needs the role `send`. */
  "POST /v1/transactions": {
    query?: { "wait"?: "broadcast" | "mined" | "confirmed"; "timeout"?: string };
    header?: { "Idempotency-Key"?: string };
    body: IntentBody;
    answer: Transaction;
  };
  /** Hand over several intents; all or none are accepted. Needs the role `send`. */
  "POST /v1/transactions/batch": {
    header?: { "Idempotency-Key"?: string };
    body: IntentBody[] | null;
    answer: ListBody;
  };
  /** Hand over a transaction that the caller signed. Needs the role `send`. */
  "POST /v1/transactions/raw": {
    query?: { "wait"?: "broadcast" | "mined" | "confirmed"; "timeout"?: string };
    header?: { "Idempotency-Key"?: string };
    body: RawInputBody;
    answer: Transaction;
  };
  /** What would happen, and the maximum cost. Needs the role `send`. */
  "POST /v1/transactions/simulate": {
    body: IntentBody;
    answer: SimulatedBody;
  };
  /** Everything that happens, as server-sent events. Needs the role `read`. */
  "GET /v1/transactions/stream": {
    query?: { "cursor"?: string };
    header?: { "Last-Event-ID"?: string };
    answer: string;
  };
  /** What became of an intent. Needs the role `read`. */
  "GET /v1/transactions/{id}": {
    path: { "id": string };
    query?: { "wait"?: "broadcast" | "mined" | "confirmed"; "timeout"?: string };
    answer: Transaction;
  };
  /** Cancel an intent. Needs the role `send`. */
  "POST /v1/transactions/{id}/cancel": {
    path: { "id": string };
    answer: Transaction;
  };
  /** Put another payload in the place of an intent. Needs the role `send`. */
  "POST /v1/transactions/{id}/replace": {
    path: { "id": string };
    header?: { "Idempotency-Key"?: string };
    body: IntentBody;
    answer: Transaction;
  };
  /** The webhooks. Needs the role `read`. */
  "GET /v1/webhooks": {
    answer: HooksOutBody;
  };
  /** Register a URL; its secret is shown this once. Needs the role `send`. */
  "POST /v1/webhooks": {
    body: CreateWebhookRequest;
    answer: Webhook;
  };
  /** One webhook. Needs the role `read`. */
  "GET /v1/webhooks/{id}": {
    path: { "id": string };
    answer: Webhook;
  };
  /** Change a webhook. Needs the role `send`. */
  "PATCH /v1/webhooks/{id}": {
    path: { "id": string };
    body: UpdateWebhookRequest;
    answer: Webhook;
  };
  /** Remove a webhook with its deliveries. Needs the role `send`. */
  "DELETE /v1/webhooks/{id}": {
    path: { "id": string };
    answer: undefined;
  };
  /** Deliveries of a webhook, newest first. Needs the role `read`. */
  "GET /v1/webhooks/{id}/deliveries": {
    path: { "id": string };
    query?: { "status"?: "pending" | "delivered" | "dead"; "cursor"?: string; "limit"?: number };
    answer: DeliveriesOutBody;
  };
  /** Send a delivery again that ended. Needs the role `send`. */
  "POST /v1/webhooks/{id}/deliveries/{delivery}/redeliver": {
    path: { "id": string; "delivery": string };
    answer: Delivery;
  };
  /** Make a new secret; for some time the old one signs as well. Needs the role `send`. */
  "POST /v1/webhooks/{id}/rotate": {
    path: { "id": string };
    body?: RotateWebhookRequest;
    answer: Webhook;
  };
}
