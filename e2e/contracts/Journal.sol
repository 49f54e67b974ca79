// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

/// Takes entries in strict succession: entry n is accepted only as the n-th.
/// A burst that ran in any other order shows up as reverted transactions.
contract Journal {
    uint256 public length;

    event Entry(uint256 indexed position, address indexed writer);

    error OutOfOrder(uint256 expected, uint256 got);

    function write(uint256 position) external {
        if (position != length) revert OutOfOrder(length, position);
        length = position + 1;
        emit Entry(position, msg.sender);
    }
}
