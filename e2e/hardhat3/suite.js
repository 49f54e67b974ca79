// What projects of Hardhat 3 test every day, with the helpers they use for it.

import { expect } from 'chai';
import { anyValue } from '@nomicfoundation/hardhat-ethers-chai-matchers/withArgs';
import { network } from 'hardhat';

const { ethers, networkHelpers } = await network.connect();
const { loadFixture, time, mine, impersonateAccount, setBalance, takeSnapshot } = networkHelpers;

const deploy = (name, ...args) => ethers.deployContract(name, args);

describe('Vault: time', () => {
  async function fixture() {
    const until = (await time.latest()) + 365 * 24 * 3600;
    return { vault: await deploy('Vault', until), until };
  }

  it('refuses before its time', async () => {
    const { vault, until } = await loadFixture(fixture);
    await expect(vault.withdraw()).to.be.revertedWithCustomError(vault, 'TooEarly').withArgs(anyValue, until);
    await time.increaseTo(until);
  });

  it('pays at its time, in the same fixture', async () => {
    const { vault, until } = await loadFixture(fixture);
    await time.setNextBlockTimestamp(until + 5);
    await expect(vault.withdraw()).to.emit(vault, 'Withdrawn').withArgs(0n, until + 5);
  });
});

describe('tokens', () => {
  async function fixture() {
    return { signers: await ethers.getSigners(), coin: await deploy('Coin', 1000n), art: await deploy('Art'), items: await deploy('Items', [1], [10]) };
  }

  it('ERC-20', async () => {
    const { signers: [owner, alice], coin } = await loadFixture(fixture);
    await expect(coin.transfer(alice, 100n)).to.changeTokenBalances(ethers, coin, [owner, alice], [-100n, 100n]);
    await expect(coin.connect(alice).transfer(owner, 101n)).to.be.revertedWithCustomError(coin, 'ERC20InsufficientBalance').withArgs(alice.address, 100n, 101n);
  });

  it('ERC-721 and ERC-1155, in the same fixture', async () => {
    const { signers: [owner, alice], coin, art, items } = await loadFixture(fixture);
    expect(await coin.balanceOf(alice)).to.equal(0n);
    await expect(art.mint(alice)).to.emit(art, 'Transfer').withArgs(ethers.ZeroAddress, alice.address, 1n);
    await items.safeTransferFrom(owner, alice, 1, 4, '0x');
    expect(await items.balanceOf(alice, 1)).to.equal(4n);
  });

  it('impersonates', async () => {
    const { signers: [owner], coin, art } = await loadFixture(fixture);
    const at = await art.getAddress();
    await coin.transfer(at, 10n);
    await impersonateAccount(at);
    await setBalance(at, ethers.parseEther('10'));
    await coin.connect(await ethers.getSigner(at)).transfer(owner, 4n);
    expect(await coin.balanceOf(at)).to.equal(6n);
  });
});

describe('Governor and proxies', () => {
  it('decides and executes', async () => {
    const [owner] = await ethers.getSigners();
    const coin = await deploy('Coin', 1000n);
    const council = await deploy('Council', await coin.getAddress());
    const art = await deploy('Art');
    await art.transferOwnership(council);
    await coin.delegate(owner);
    const what = [[await art.getAddress()], [0], [art.interface.encodeFunctionData('mint', [owner.address])]];
    await council.propose(...what, 'a picture');
    const hashed = [...what, ethers.id('a picture')];
    const id = await council.hashProposal(...hashed);
    await mine(1);
    await council.castVote(id, 1);
    await mine(50);
    await council.execute(...hashed);
    expect(await art.ownerOf(1n)).to.equal(owner.address);
  });

  it('upgrades', async () => {
    const [owner, other] = await ethers.getSigners();
    const [v1, v2] = [await deploy('CounterV1'), await deploy('CounterV2')];
    const proxy = await deploy('PlainProxy', await v1.getAddress(), v1.interface.encodeFunctionData('initialize', [owner.address]));
    const counter = v1.attach(await proxy.getAddress());
    const snapshot = await takeSnapshot();
    await expect(counter.connect(other).upgradeToAndCall(v2, '0x')).to.be.revertedWith('not the owner');
    await counter.upgradeToAndCall(v2, '0x');
    await counter.add();
    expect(await counter.count()).to.equal(10n);
    await snapshot.restore();
    await counter.add();
    expect(await counter.count()).to.equal(1n);
  });
});
