// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// Money that waits for the payer's approval. The keeper pays it out then, once.
contract Escrow {
    address public immutable payer;
    address payable public immutable payee;
    address public immutable keeper;
    bool public approved;
    bool public released;

    event Approved(address indexed by);
    event Released(address indexed to, uint256 amount);

    constructor(address payer_, address payable payee_, address keeper_) payable {
        payer = payer_;
        payee = payee_;
        keeper = keeper_;
    }

    function approve() external {
        require(msg.sender == payer, "only the payer approves");
        require(!approved, "approved already");
        approved = true;
        emit Approved(msg.sender);
    }

    function release() external {
        require(msg.sender == keeper, "only the keeper releases");
        require(approved, "not approved");
        require(!released, "released already");
        released = true;
        uint256 amount = address(this).balance;
        emit Released(payee, amount);
        (bool sent,) = payee.call{value: amount}("");
        require(sent, "the payee does not take it");
    }
}

contract EscrowFactory {
    event EscrowDeployed(address indexed escrow, address indexed payer, address indexed payee, uint256 amount);

    function deploy(address payable payee, address keeper) external payable returns (Escrow escrow) {
        escrow = new Escrow{value: msg.value}(msg.sender, payee, keeper);
        emit EscrowDeployed(address(escrow), msg.sender, payee, msg.value);
    }
}
