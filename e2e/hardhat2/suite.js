// What projects test every day, with the helpers they use for it.

const { expect } = require('chai');
const { ethers, network } = require('hardhat');
const { anyValue } = require('@nomicfoundation/hardhat-chai-matchers/withArgs');
const helpers = require('@nomicfoundation/hardhat-network-helpers');
const { loadFixture, time, mine, impersonateAccount, stopImpersonatingAccount, setBalance, setStorageAt, takeSnapshot } = helpers;

const deploy = async (name, ...args) => (await (await ethers.getContractFactory(name)).deploy(...args)).waitForDeployment();

describe('Vault: time', () => {
  async function fixture() {
    const [owner, other] = await ethers.getSigners();
    const until = (await time.latest()) + 365 * 24 * 3600;
    const vault = await deploy('Vault', until, { value: ethers.parseEther('1') });
    return { vault, until, owner, other };
  }

  it('is deployed with its value', async () => {
    const { vault, until } = await loadFixture(fixture);
    expect(await vault.until()).to.equal(until);
    expect(await ethers.provider.getBalance(vault)).to.equal(ethers.parseEther('1'));
  });

  it('refuses before its time', async () => {
    const { vault, until } = await loadFixture(fixture);
    await expect(vault.withdraw()).to.be.revertedWithCustomError(vault, 'TooEarly').withArgs(anyValue, until);
    await time.increaseTo(until - 2);
    expect(await time.latest()).to.equal(until - 2);
  });

  it('refuses others at its time', async () => {
    const { vault, until, other } = await loadFixture(fixture);
    await time.increaseTo(until);
    await expect(vault.connect(other).withdraw()).to.be.revertedWith('not the owner');
  });

  it('pays at its time', async () => {
    const { vault, until, owner } = await loadFixture(fixture);
    await time.setNextBlockTimestamp(until + 5);
    // A contract sees tinybars.
    await expect(vault.withdraw()).to.emit(vault, 'Withdrawn').withArgs(10n ** 8n, until + 5);
  });

  it('moves the balances', async () => {
    const { vault, until, owner } = await loadFixture(fixture);
    await time.increaseTo(until);
    await expect(vault.withdraw()).to.changeEtherBalances([owner, vault], [ethers.parseEther('1'), -ethers.parseEther('1')]);
  });

  it('cannot be made for the past', async () => {
    const factory = await ethers.getContractFactory('Vault');
    await expect(factory.deploy((await time.latest()) - 10)).to.be.revertedWith('in the past');
  });
});

describe('tokens', () => {
  async function fixture() {
    const [owner, alice, bob] = await ethers.getSigners();
    const coin = await deploy('Coin', 1_000_000n);
    const art = await deploy('Art');
    const items = await deploy('Items', [1, 2], [10, 20]);
    return { owner, alice, bob, coin, art, items };
  }

  it('ERC-20 moves, approves and refuses', async () => {
    const { owner, alice, bob, coin } = await loadFixture(fixture);
    await expect(coin.transfer(alice, 100n)).to.changeTokenBalances(coin, [owner, alice], [-100n, 100n]);
    await coin.connect(alice).approve(bob, 60n);
    await expect(coin.connect(bob).transferFrom(alice, bob, 60n)).to.emit(coin, 'Transfer').withArgs(alice.address, bob.address, 60n);
    await expect(coin.connect(bob).transferFrom(alice, bob, 1n)).to.be.revertedWithCustomError(coin, 'ERC20InsufficientAllowance').withArgs(bob.address, 0n, 1n);
  });

  it('the fixture is fresh again', async () => {
    const { alice, coin } = await loadFixture(fixture);
    expect(await coin.balanceOf(alice)).to.equal(0n);
  });

  it('permits with a signature of typed data', async () => {
    const { alice, bob, coin, owner } = await loadFixture(fixture);
    const deadline = (await time.latest()) + 3600;
    const { chainId } = await ethers.provider.getNetwork();
    const domain = { name: 'Coin', version: '1', chainId, verifyingContract: await coin.getAddress() };
    const types = { Permit: ['owner', 'spender', 'value', 'nonce', 'deadline'].map((name, i) => ({ name, type: i < 2 ? 'address' : 'uint256' })) };
    const value = { owner: owner.address, spender: bob.address, value: 5n, nonce: 0n, deadline };
    const { v, r, s } = ethers.Signature.from(await owner.signTypedData(domain, types, value));
    await coin.connect(alice).permit(owner, bob, 5n, deadline, v, r, s);
    expect(await coin.allowance(owner, bob)).to.equal(5n);
    await time.increase(7200);
    await expect(coin.permit(owner, bob, 5n, deadline, v, r, s)).to.be.revertedWithCustomError(coin, 'ERC2612ExpiredSignature');
  });

  it('ERC-721 mints for its owner alone', async () => {
    const { owner, alice, art } = await loadFixture(fixture);
    await expect(art.mint(alice)).to.emit(art, 'Transfer').withArgs(ethers.ZeroAddress, alice.address, 1n);
    await expect(art.connect(alice).mint(alice)).to.be.revertedWithCustomError(art, 'OwnableUnauthorizedAccount').withArgs(alice.address);
    await art.connect(alice).transferFrom(alice, owner, 1n);
    expect(await art.ownerOf(1n)).to.equal(owner.address);
  });

  it('ERC-1155 moves in batches', async () => {
    const { owner, alice, items } = await loadFixture(fixture);
    await items.safeBatchTransferFrom(owner, alice, [1, 2], [3, 4], '0x');
    expect(await items.balanceOfBatch([alice, owner], [1, 2])).to.deep.equal([3n, 16n]);
    await expect(items.safeTransferFrom(owner, alice, 1, 100, '0x')).to.be.revertedWithCustomError(items, 'ERC1155InsufficientBalance');
  });

  it('signs messages', async () => {
    const { alice } = await loadFixture(fixture);
    expect(ethers.verifyMessage('hello', await alice.signMessage('hello'))).to.equal(alice.address);
  });
});

describe('Governor', () => {
  it('decides and executes', async () => {
    const [owner, voter] = await ethers.getSigners();
    const coin = await deploy('Coin', 1000n);
    const council = await deploy('Council', await coin.getAddress());
    const art = await deploy('Art');
    await art.transferOwnership(council);
    await coin.transfer(voter, 400n);
    await coin.connect(voter).delegate(voter);
    await coin.delegate(owner);
    const call = art.interface.encodeFunctionData('mint', [voter.address]);
    const proposal = [[await art.getAddress()], [0], [call], 'a picture'];
    const hashed = [...proposal.slice(0, 3), ethers.id('a picture')];
    await council.propose(...proposal);
    const id = await council.hashProposal(...hashed);
    await mine(2);
    await expect(council.connect(voter).castVote(id, 1)).to.emit(council, 'VoteCast');
    await expect(council.execute(...hashed)).to.be.revertedWithCustomError(council, 'GovernorUnexpectedProposalState');
    await mine(51);
    expect(await council.state(id)).to.equal(4n);
    await council.execute(...hashed);
    expect(await art.ownerOf(1n)).to.equal(voter.address);
  });
});

describe('proxies', () => {
  it('UUPS is upgraded by its owner alone', async () => {
    const [owner, other] = await ethers.getSigners();
    const [v1, v2] = [await deploy('CounterV1'), await deploy('CounterV2')];
    const proxy = await deploy('PlainProxy', await v1.getAddress(), v1.interface.encodeFunctionData('initialize', [owner.address]));
    const counter = v1.attach(await proxy.getAddress());
    await counter.add();
    await expect(counter.connect(other).upgradeToAndCall(v2, '0x')).to.be.revertedWith('not the owner');
    await counter.upgradeToAndCall(v2, '0x');
    await counter.add();
    expect(await counter.count()).to.equal(11n);
  });

  it('transparent has an admin', async () => {
    const [owner] = await ethers.getSigners();
    const v1 = await deploy('CounterV1');
    const proxy = await deploy('AdminProxy', await v1.getAddress(), owner.address, v1.interface.encodeFunctionData('initialize', [owner.address]));
    const counter = v1.attach(await proxy.getAddress());
    await counter.add();
    expect(await counter.count()).to.equal(1n);
  });

  it('clones are where the event says', async () => {
    const [v1, maker] = [await deploy('CounterV1'), await deploy('Maker')];
    const receipt = await (await maker.clone(v1)).wait();
    const counter = v1.attach(maker.interface.parseLog(receipt.logs[0]).args.clone);
    await counter.add();
    expect(await counter.count()).to.equal(1n);
  });
});

describe('a gas limit of one\'s own', () => {
  it('reverts in its block, and the call tells why', async () => {
    const [owner, other] = await ethers.getSigners();
    const v1 = await deploy('CounterV1');
    const proxy = await deploy('PlainProxy', await v1.getAddress(), v1.interface.encodeFunctionData('initialize', [owner.address]));
    const upgrade = v1.attach(await proxy.getAddress()).connect(other).upgradeToAndCall;
    const limited = () => upgrade(v1, '0x', { gasLimit: 1_000_000n });
    await expect(limited()).to.be.reverted;
    await expect(expect(limited()).to.be.revertedWith('not the owner')).to.be.rejectedWith("but it didn't revert");
    await expect(upgrade.staticCall(v1, '0x')).to.be.revertedWith('not the owner');
    await expect(upgrade(v1, '0x')).to.be.revertedWith('not the owner');
  });

  it('lets transactions go together that need each other\'s gas', async () => {
    const [owner, alice] = await ethers.getSigners();
    const coin = await deploy('Coin', 1000n);
    const enough = { gasLimit: 1_000_000n };
    const sent = await Promise.all([coin.transfer(alice, 10n, enough), coin.connect(alice).delegate(alice, enough)]);
    await Promise.all(sent.map((tx) => tx.wait()));
    expect(await coin.getVotes(alice)).to.equal(10n);
  });
});

describe('the chain as a tool', () => {
  it('impersonates an account and a contract', async () => {
    const [owner] = await ethers.getSigners();
    const coin = await deploy('Coin', 1000n);
    const vault = await deploy('Vault', (await time.latest()) + 1000);
    const stranger = '0x110000000000000000000000000000000000dead';
    for (const at of [stranger, await vault.getAddress()]) {
      await coin.transfer(at, 10n);
      await impersonateAccount(at);
      await setBalance(at, ethers.parseEther('10'));
      await expect(coin.connect(await ethers.getSigner(at)).transfer(owner, 4n)).to.changeTokenBalance(coin, owner, 4n);
      await stopImpersonatingAccount(at);
      expect(await coin.balanceOf(at)).to.equal(6n);
      await expect(coin.connect(await ethers.getSigner(at)).transfer(owner, 4n)).to.be.rejected;
    }
  });

  it('takes snapshots within each other', async () => {
    const [owner, alice] = await ethers.getSigners();
    const coin = await deploy('Coin', 1000n);
    const outer = await takeSnapshot();
    await coin.transfer(alice, 1n);
    const inner = await takeSnapshot();
    await coin.transfer(alice, 2n);
    await inner.restore();
    expect(await coin.balanceOf(alice)).to.equal(1n);
    await outer.restore();
    expect(await coin.balanceOf(alice)).to.equal(0n);
    await expect(inner.restore()).to.be.rejected;
  });

  it('writes storage and mines', async () => {
    const [owner, alice] = await ethers.getSigners();
    const coin = await deploy('Coin', 1000n);
    const slot = ethers.solidityPackedKeccak256(['uint256', 'uint256'], [alice.address, 0]);
    await setStorageAt(await coin.getAddress(), slot, ethers.toBeHex(77n, 32));
    expect(await coin.balanceOf(alice)).to.equal(77n);
    const block = await time.latestBlock();
    await mine(1000, { interval: 60 });
    expect(await time.latestBlock()).to.equal(block + 1000);
    const first = await ethers.provider.getBlock(block + 1); // how long after the one before depends on the machine
    expect(await time.latest()).to.equal(first.timestamp + 999 * 60);
  });

  it('mines when it is told to', async () => {
    const [owner, alice] = await ethers.getSigners();
    await network.provider.send('evm_setAutomine', [false]);
    try {
      const before = await time.latestBlock();
      const sent = [];
      for (let i = 0; i < 3; i++) sent.push(await owner.sendTransaction({ to: alice, value: 10n ** 10n }));
      expect(await time.latestBlock()).to.equal(before);
      expect(await ethers.provider.getTransactionReceipt(sent[0].hash)).to.equal(null);
      await mine();
      const receipts = await Promise.all(sent.map((tx) => tx.wait()));
      expect(receipts.map((r) => r.blockNumber)).to.deep.equal([before + 1, before + 1, before + 1]);
    } finally {
      await network.provider.send('evm_setAutomine', [true]);
    }
  });

  it('executes all of a burst that arrives in any order', async () => {
    const [owner] = await ethers.getSigners();
    const wallet = new ethers.Wallet(ethers.Wallet.createRandom().privateKey, ethers.provider);
    await owner.sendTransaction({ to: wallet.address, value: ethers.parseEther('100') });
    const nonces = [...Array(100).keys()].map((nonce) => [Math.random(), nonce]).sort().map(([, nonce]) => nonce);
    const sent = await Promise.all(nonces.map((nonce) => wallet.sendTransaction({ to: owner, value: 10n ** 10n, nonce, gasLimit: 30_000 })));
    const receipts = await Promise.all(sent.map((tx) => tx.wait()));
    expect(receipts.every((r) => r.status === 1)).to.equal(true);
    expect(await wallet.getNonce()).to.equal(100);
  });
});
