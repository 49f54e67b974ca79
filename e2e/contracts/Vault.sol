// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// A number that grows, and money: what is called through the consensus nodes' own API.
contract Vault {
    uint256 public value;

    event Added(uint256 by);

    constructor(uint256 first) {
        value = first;
    }

    function add(uint256 by) external returns (uint256) {
        value += by;
        emit Added(by);
        return value;
    }

    function pay() external payable {}

    function fail() external pure {
        revert("not today");
    }
}
