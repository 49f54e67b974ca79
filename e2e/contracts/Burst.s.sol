// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Journal} from "./Journal.sol";

/// The two cheat codes that a broadcasting script needs.
interface Vm {
    function startBroadcast() external;
    function stopBroadcast() external;
}

/// One deployment and twenty dependent calls of one key.
contract Burst {
    Vm private constant vm = Vm(0x7109709ECfa91a80626fF3989D68f67F5b1DD12D);

    function run() external {
        vm.startBroadcast();
        Journal journal = new Journal();
        for (uint256 i = 0; i < 20; i++) {
            journal.write(i);
        }
        vm.stopBroadcast();
    }
}
