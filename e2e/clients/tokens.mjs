// Tokens from inside the EVM: what contracts and wallets do to them through the relay,
// what the network's own clients see of it, and the other way round.

import {
  AccountBalanceQuery, AccountId, Client, ContractId, Hbar, PrivateKey,
  TokenCreateTransaction, TokenId, TokenInfoQuery, TokenMintTransaction, TokenType,
} from '@hiero-ledger/sdk';
import { Contract, ContractFactory, JsonRpcProvider, Wallet, getAddress, toBeHex, zeroPadValue } from 'ethers';
import { run, until } from './task.mjs';

const erc20 = [
  'function name() view returns (string)', 'function symbol() view returns (string)', 'function decimals() view returns (uint8)',
  'function totalSupply() view returns (uint256)', 'function balanceOf(address) view returns (uint256)',
  'function allowance(address,address) view returns (uint256)', 'function transfer(address,uint256) returns (bool)',
  'function approve(address,uint256) returns (bool)', 'function transferFrom(address,address,uint256) returns (bool)',
  'function associate() returns (int64)', 'function dissociate() returns (int64)', 'function isAssociated() view returns (bool)',
  'event Transfer(address indexed from, address indexed to, uint256 value)',
  'event Approval(address indexed owner, address indexed spender, uint256 value)',
];
const erc721 = [
  'function ownerOf(uint256) view returns (address)', 'function tokenURI(uint256) view returns (string)',
  'function approve(address,uint256)', 'function getApproved(uint256) view returns (address)',
  'function setApprovalForAll(address,bool)', 'function isApprovedForAll(address,address) view returns (bool)',
  'function transferFrom(address,address,uint256)', 'function balanceOf(address) view returns (uint256)',
  'event Transfer(address indexed from, address indexed to, uint256 indexed tokenId)',
];

function connect(input) {
  const key = PrivateKey.fromStringECDSA(input.operator.privateKey);
  const client = Client.forNetwork({ [input.consensus]: '0.0.3' }).setOperator(AccountId.fromString(input.operator.id), key)
    .setNetworkUpdatePeriod(2 ** 31 - 1).setDefaultMaxTransactionFee(new Hbar(100));
  const provider = new JsonRpcProvider(input.rpc, undefined, { cacheTimeout: -1 });
  const wallet = new Wallet(input.evmKey, provider);
  const execute = async (transaction) => (await transaction.execute(client)).getReceipt(client);
  return { client, key, provider, wallet, execute, id: client.operatorAccountId };
}

const addressOf = (id) => getAddress(zeroPadValue(toBeHex(BigInt(id.toString().split('.')[2])), 20));
const mined = async (sent) => (await sent).wait();
const failed = (promise) => promise.then(() => 'no failure', (error) => error.code ?? String(error));
// What estimates do not cover: the price of the service's own transactions.
const gas = { gasLimit: 2_000_000 };

// facade uses a token that the SDK made as wallets use any ERC-20.
async function facade(input) {
  const s = connect(input);
  const { tokenId } = await s.execute(new TokenCreateTransaction().setTokenName('Facade').setTokenSymbol('FCD').setDecimals(3)
    .setInitialSupply(10_000).setTreasuryAccountId(s.id).setAdminKey(s.key).setSupplyKey(s.key));
  const at = addressOf(tokenId);
  const token = new Contract(at, erc20, s.wallet);
  const other = new Wallet(input.other, s.provider);
  const theirs = token.connect(other);
  const described = await until(async () => { try { return await token.name(); } catch { return null; } }, 'name of the token');
  const before = await theirs.isAssociated();
  const unassociated = await failed(mined(token.transfer(other.address, 10, gas)));
  const associated = (await mined(theirs.associate(gas))).status;
  const sent = await mined(token.transfer(other.address, 1_234, gas));
  const approval = await mined(theirs.approve(s.wallet.address, 1_000, gas));
  const pulled = await mined(token.transferFrom(other.address, s.wallet.address, 400, gas));
  const logs = await s.provider.getLogs({ address: at, fromBlock: sent.blockNumber, toBlock: pulled.blockNumber });
  const minted = await s.execute(new TokenMintTransaction().setTokenId(tokenId).setAmount(5));
  const synthetic = await until(async () => {
    const found = await s.provider.getLogs({ address: at, fromBlock: pulled.blockNumber + 1 });
    return found.length > 0 ? found : null;
  }, 'event of the mint');
  const receipt = await s.provider.getTransactionReceipt(synthetic[0].transactionHash);
  const balances = await new AccountBalanceQuery().setAccountId(s.id).execute(s.client);
  return {
    described, symbol: await token.symbol(), decimals: Number(await token.decimals()), supply: await token.totalSupply(),
    before, after: await theirs.isAssociated(), unassociated, associated,
    owner: await token.balanceOf(s.wallet.address), held: await token.balanceOf(other.address),
    allowance: await token.allowance(other.address, s.wallet.address), hapi: balances.tokens.get(tokenId).toString(),
    events: logs.map((log) => token.interface.parseLog(log)).map((e) => `${e.name} ${e.args[2]}`),
    fromSender: logs[0].topics[1].endsWith(s.wallet.address.slice(2).toLowerCase()), approvalLogs: approval.logs.length,
    synthetic: synthetic.map((log) => token.interface.parseLog(log)).map((e) => `${e.name} ${e.args[2]}`),
    syntheticReceipt: receipt.logs.length, code: await s.provider.getCode(at), minted: minted.totalSupply.toString(),
    tooMuch: await failed(token.transfer.staticCall(other.address, 10n ** 15n)),
  };
}

// collection uses NFTs that the SDK made as wallets use any ERC-721.
async function collection(input) {
  const s = connect(input);
  const { tokenId } = await s.execute(new TokenCreateTransaction().setTokenName('Collection').setTokenSymbol('COL')
    .setTokenType(TokenType.NonFungibleUnique)
    .setTreasuryAccountId(s.id).setSupplyKey(s.key));
  await s.execute(new TokenMintTransaction().setTokenId(tokenId).setMetadata(['ipfs://a', 'ipfs://b'].map((m) => Buffer.from(m))));
  const at = addressOf(tokenId);
  const token = new Contract(at, erc721, s.wallet);
  const other = new Wallet(input.other, s.provider);
  await mined(new Contract(at, erc20, other).associate(gas));
  const uri = await until(async () => { try { return await token.tokenURI(1); } catch { return null; } }, 'URI of the NFT');
  await mined(token.approve(other.address, 1, gas));
  const approved = await token.getApproved(1);
  const moved = await mined(token.connect(other).transferFrom(s.wallet.address, other.address, 1, gas));
  const notAllowed = await failed(mined(token.connect(other).transferFrom(s.wallet.address, other.address, 2, gas)));
  await mined(token.setApprovalForAll(other.address, true, gas));
  const all = await token.isApprovedForAll(s.wallet.address, other.address);
  await mined(token.connect(other).transferFrom(s.wallet.address, other.address, 2, gas));
  return {
    uri, approved: approved === other.address, owner: (await token.ownerOf(1)) === other.address, notAllowed, all,
    held: await token.balanceOf(other.address), serial: token.interface.parseLog(moved.logs[0]).args[2],
    cleared: await token.getApproved(1),
  };
}

// user has a contract create and use tokens.
async function user(input) {
  const s = connect(input);
  const factory = new ContractFactory(input.artifact.abi, input.artifact.bytecode, s.wallet);
  const contract = await factory.deploy({ gasLimit: 5_000_000 });
  await contract.waitForDeployment();
  const at = await contract.getAddress();
  const other = new Wallet(input.other, s.provider);
  const fee = { ...gas, value: 20n * 10n ** 18n };
  const codes = {};
  const step = async (name, sent) => { await mined(sent); codes[name] = Number(await contract.code()); };
  await step('unpaid', contract.create(1000, gas));
  await step('created', contract.create(1000, fee));
  const address = await contract.token();
  const tokenId = TokenId.fromEvmAddress(0, 0, address);
  await step('unassociated', contract.send(other.address, 5, gas));
  await step('associatedForOther', contract.associateFor(other.address, gas));
  const token = new Contract(address, erc20, other);
  await mined(token.associate(gas));
  await step('sent', contract.send(other.address, 5, gas));
  await mined(contract.sendErc(other.address, 7, gas));
  const sent = await mined(contract.mint(50, gas));
  const children = await until(async () => {
    const answer = await fetch(`${input.mirror}/api/v1/contracts/results/${sent.hash}`);
    const { timestamp } = await answer.json();
    const list = await (await fetch(`${input.mirror}/api/v1/transactions?timestamp=gte:${timestamp}&order=asc&limit=2`)).json();
    return list.transactions.length === 2 ? list.transactions : null;
  }, 'child of the mint');
  const reverted = await failed(mined(contract.sendAndRevert(other.address, 100, gas)));
  const caught = await mined(contract.tryToSend(other.address, 100, gas));
  codes.caught = Number(await contract.code());
  const results = await until(async () => {
    const answer = await fetch(`${input.mirror}/api/v1/contracts/results/${caught.hash}`);
    const { timestamp } = await answer.json();
    const list = await (await fetch(`${input.mirror}/api/v1/transactions?timestamp=gte:${timestamp}&order=asc&limit=2`)).json();
    return list.transactions.length === 2 ? list.transactions.map((t) => t.result) : null;
  }, 'records of what was caught');
  await mined(token.approve(at, 3, gas));
  await mined(contract.pull(other.address, 2, gas));
  const pulledTooMuch = await failed(mined(contract.pull(other.address, 2, gas)));
  await step('wiped', contract.wipe(other.address, 1, gas));
  await step('frozen', contract.freeze(other.address, gas));
  await step('sentFrozen', contract.send(other.address, 1, gas));
  await step('createdNFT', contract.createNFT(fee));
  await mined(contract.mintNFT('0x1234', gas));
  const info = await new TokenInfoQuery().setTokenId(tokenId).execute(s.client);
  return {
    codes, reverted, pulledTooMuch, results, child: [children[1].name, children[1].result, children[1].nonce],
    held: await contract.balance(other.address), supply: info.totalSupply.toString(), name: info.name,
    treasury: (await new AccountBalanceQuery().setContractId(ContractId.fromEvmAddress(0, 0, at.slice(2))).execute(s.client)).tokens.get(tokenId).toString(),
    serial: await contract.serial(), codeSize: await contract.codeSize(), byDelegate: await contract.byDelegate.staticCall(gas), byStatic: await contract.byStatic(gas),
  };
}

// maker has a contract create a token in its constructor.
async function maker(input) {
  const s = connect(input);
  const factory = new ContractFactory(input.artifact.abi, input.artifact.bytecode, s.wallet);
  const contract = await factory.deploy({ gasLimit: 5_000_000, value: 20n * 10n ** 18n });
  await contract.waitForDeployment();
  return { code: Number(await contract.code()), held: await contract.balance(await contract.getAddress()) };
}

await run({ facade, collection, user, maker });
