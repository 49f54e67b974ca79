// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

// What projects build on OpenZeppelin: tokens, a governor, proxies; and a vault that waits.

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Permit.sol";
import {ERC20Votes} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Votes.sol";
import {Nonces} from "@openzeppelin/contracts/utils/Nonces.sol";
import {ERC721} from "@openzeppelin/contracts/token/ERC721/ERC721.sol";
import {ERC1155} from "@openzeppelin/contracts/token/ERC1155/ERC1155.sol";
import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {Governor} from "@openzeppelin/contracts/governance/Governor.sol";
import {GovernorSettings} from "@openzeppelin/contracts/governance/extensions/GovernorSettings.sol";
import {GovernorCountingSimple} from "@openzeppelin/contracts/governance/extensions/GovernorCountingSimple.sol";
import {GovernorVotes} from "@openzeppelin/contracts/governance/extensions/GovernorVotes.sol";
import {GovernorVotesQuorumFraction} from "@openzeppelin/contracts/governance/extensions/GovernorVotesQuorumFraction.sol";
import {IVotes} from "@openzeppelin/contracts/governance/utils/IVotes.sol";
import {UUPSUpgradeable} from "@openzeppelin/contracts/proxy/utils/UUPSUpgradeable.sol";
import {ERC1967Proxy} from "@openzeppelin/contracts/proxy/ERC1967/ERC1967Proxy.sol";
import {TransparentUpgradeableProxy} from "@openzeppelin/contracts/proxy/transparent/TransparentUpgradeableProxy.sol";
import {Clones} from "@openzeppelin/contracts/proxy/Clones.sol";

contract Coin is ERC20, ERC20Permit, ERC20Votes {
    constructor(uint256 supply) ERC20("Coin", "COIN") ERC20Permit("Coin") {
        _mint(msg.sender, supply);
    }

    function _update(address from, address to, uint256 value) internal override(ERC20, ERC20Votes) {
        super._update(from, to, value);
    }

    function nonces(address owner) public view override(ERC20Permit, Nonces) returns (uint256) {
        return super.nonces(owner);
    }
}

contract Art is ERC721, Ownable {
    uint256 private next = 1;

    constructor() ERC721("Art", "ART") Ownable(msg.sender) {}

    function mint(address to) external onlyOwner returns (uint256 id) {
        id = next++;
        _safeMint(to, id);
    }
}

contract Items is ERC1155 {
    constructor(uint256[] memory ids, uint256[] memory amounts) ERC1155("item/{id}") {
        _mintBatch(msg.sender, ids, amounts, "");
    }
}

contract Council is Governor, GovernorSettings, GovernorCountingSimple, GovernorVotes, GovernorVotesQuorumFraction {
    constructor(IVotes token)
        Governor("Council") GovernorSettings(1, 50, 0) GovernorVotes(token) GovernorVotesQuorumFraction(4)
    {}

    function votingDelay() public view override(Governor, GovernorSettings) returns (uint256) {
        return super.votingDelay();
    }

    function votingPeriod() public view override(Governor, GovernorSettings) returns (uint256) {
        return super.votingPeriod();
    }

    function proposalThreshold() public view override(Governor, GovernorSettings) returns (uint256) {
        return super.proposalThreshold();
    }

    function quorum(uint256 moment) public view override(Governor, GovernorVotesQuorumFraction) returns (uint256) {
        return super.quorum(moment);
    }
}

contract CounterV1 is UUPSUpgradeable {
    address public owner;
    uint256 public count;

    function initialize(address first) external {
        require(owner == address(0), "initialized already");
        owner = first;
    }

    function add() external {
        count += step();
    }

    function step() public pure virtual returns (uint256) {
        return 1;
    }

    function _authorizeUpgrade(address) internal view override {
        require(msg.sender == owner, "not the owner");
    }
}

contract CounterV2 is CounterV1 {
    function step() public pure override returns (uint256) {
        return 10;
    }
}

contract PlainProxy is ERC1967Proxy {
    constructor(address code, bytes memory data) ERC1967Proxy(code, data) {}
}

contract AdminProxy is TransparentUpgradeableProxy {
    constructor(address code, address admin, bytes memory data) TransparentUpgradeableProxy(code, admin, data) {}
}

contract Maker {
    event Made(address clone);

    function clone(address master) external {
        emit Made(Clones.clone(master));
    }
}

// Holds value until a time.
contract Vault {
    error TooEarly(uint256 now_, uint256 until);

    uint256 public immutable until;
    address payable public immutable owner;

    event Withdrawn(uint256 amount, uint256 time);

    constructor(uint256 until_) payable {
        require(until_ > block.timestamp, "in the past");
        until = until_;
        owner = payable(msg.sender);
    }

    function withdraw() external {
        if (block.timestamp < until) revert TooEarly(block.timestamp, until);
        require(msg.sender == owner, "not the owner");
        emit Withdrawn(address(this).balance, block.timestamp);
        (bool paid, ) = owner.call{value: address(this).balance}("");
        require(paid, "not paid");
    }
}
