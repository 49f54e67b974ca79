// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Coin, Council, CounterV1, CounterV2, PlainProxy, Vault} from "./Assets.sol";

/// The cheat codes that the script and the tests use.
interface Cheats {
    function startBroadcast() external;
    function stopBroadcast() external;
    function createSelectFork(string calldata url) external returns (uint256);
    function envString(string calldata name) external returns (string memory);
    function envAddress(string calldata name) external returns (address);
    function prank(address sender) external;
    function warp(uint256 time) external;
    function expectRevert(bytes calldata data) external;
}

/// Deploys what the tests look at.
contract Deploy {
    Cheats private constant vm = Cheats(0x7109709ECfa91a80626fF3989D68f67F5b1DD12D);

    function run() external {
        vm.startBroadcast();
        Coin coin = new Coin(1000);
        new Council(coin);
        coin.delegate(msg.sender);
        CounterV1 code = new CounterV1();
        CounterV1 counter = CounterV1(address(new PlainProxy(address(code), abi.encodeCall(CounterV1.initialize, (msg.sender)))));
        counter.add();
        counter.upgradeToAndCall(address(new CounterV2()), "");
        counter.add();
        vm.stopBroadcast();
    }
}

/// Runs on a fork of the chain that the script has written to.
contract ProjectTest {
    Cheats private constant vm = Cheats(0x7109709ECfa91a80626fF3989D68f67F5b1DD12D);
    Coin private coin;
    CounterV1 private counter;
    address private owner;

    function setUp() external {
        vm.createSelectFork(vm.envString("RPC_URL"));
        coin = Coin(vm.envAddress("COIN"));
        counter = CounterV1(vm.envAddress("COUNTER"));
        owner = vm.envAddress("OWNER");
    }

    function testChainIsTheOne() external view {
        require(block.chainid == 298, "chain id");
    }

    function testStateIsThere() external view {
        require(coin.balanceOf(owner) == 1000 && coin.getVotes(owner) == 1000, "coin");
        require(counter.count() == 11 && counter.owner() == owner, "counter");
    }

    function testTransfersAsItsOwner() external {
        vm.prank(owner);
        coin.transfer(address(this), 7);
        require(coin.balanceOf(address(this)) == 7, "balance");
    }

    function testUpgradeIsTheOwners() external {
        vm.expectRevert(abi.encodeWithSignature("Error(string)", "not the owner"));
        counter.upgradeToAndCall(address(0), "");
    }

    function testWaits() external {
        Vault vault = new Vault(block.timestamp + 100);
        vm.expectRevert(abi.encodeWithSelector(Vault.TooEarly.selector, block.timestamp, block.timestamp + 100));
        vault.withdraw();
        vm.warp(block.timestamp + 100);
        vault.withdraw();
    }

    receive() external payable {}
}
