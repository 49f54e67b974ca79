// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

// The part of the token service that the tests call.
interface ITokenService {
    struct KeyValue {
        bool inheritAccountKey;
        address contractId;
        bytes ed25519;
        bytes ecdsa;
        address delegatableContractId;
    }
    struct TokenKey {
        uint256 keyType;
        KeyValue key;
    }
    struct Expiry {
        int64 second;
        address autoRenewAccount;
        int64 autoRenewPeriod;
    }
    struct HederaToken {
        string name;
        string symbol;
        address treasury;
        string memo;
        bool finite;
        int64 maxSupply;
        bool freezeDefault;
        TokenKey[] tokenKeys;
        Expiry expiry;
    }

    function createFungibleToken(HederaToken memory token, int64 supply, int32 decimals) external payable returns (int64, address);
    function createNonFungibleToken(HederaToken memory token) external payable returns (int64, address);
    function mintToken(address token, int64 amount, bytes[] memory metadata) external returns (int64, int64, int64[] memory);
    function burnToken(address token, int64 amount, int64[] memory serials) external returns (int64, int64);
    function associateToken(address account, address token) external returns (int64);
    function transferToken(address token, address from, address to, int64 amount) external returns (int64);
    function transferNFT(address token, address from, address to, int64 serial) external returns (int64);
    function approve(address token, address spender, uint256 amount) external returns (int64, bool);
    function freezeToken(address token, address account) external returns (int64);
    function unfreezeToken(address token, address account) external returns (int64);
    function wipeTokenAccount(address token, address account, int64 amount) external returns (int64);
    function pauseToken(address token) external returns (int64);
    function unpauseToken(address token) external returns (int64);
    function isToken(address token) external returns (int64, bool);
    function isFrozen(address token, address account) external returns (int64, bool);
    function getTokenType(address token) external returns (int64, int32);
}

interface IERC20 {
    function name() external view returns (string memory);
    function totalSupply() external view returns (uint256);
    function balanceOf(address account) external view returns (uint256);
    function transfer(address to, uint256 amount) external returns (bool);
    function transferFrom(address from, address to, uint256 amount) external returns (bool);
}

// TokenUser owns tokens and does to them what it is asked to.
contract TokenUser {
    ITokenService constant service = ITokenService(address(0x167));
    int64 constant success = 22;

    address public token;
    address public nft;
    int64 public code;
    int64 public serial;

    function keys(uint256 roles) internal view returns (ITokenService.TokenKey[] memory list) {
        list = new ITokenService.TokenKey[](1);
        list[0].keyType = roles;
        list[0].key.contractId = address(this);
    }

    function describe(string memory name) internal view returns (ITokenService.HederaToken memory t) {
        t.name = name;
        t.symbol = "TU";
        t.treasury = address(this);
        t.tokenKeys = keys(127 - 2);
        t.expiry.autoRenewAccount = address(this);
        t.expiry.autoRenewPeriod = 7776000;
    }

    function create(int64 supply) external payable {
        (code, token) = service.createFungibleToken{value: msg.value}(describe("Made by a contract"), supply, 4);
    }

    function createNFT() external payable {
        (code, nft) = service.createNonFungibleToken{value: msg.value}(describe("NFTs of a contract"));
    }

    function mint(int64 amount) external returns (int64 supply) {
        (code, supply,) = service.mintToken(token, amount, new bytes[](0));
    }

    function mintNFT(bytes memory metadata) external {
        bytes[] memory list = new bytes[](1);
        list[0] = metadata;
        int64[] memory serials;
        (code,, serials) = service.mintToken(nft, 0, list);
        serial = serials[0];
    }

    function send(address to, int64 amount) external {
        code = service.transferToken(token, address(this), to, amount);
    }

    function sendNFT(address to, int64 which) external {
        code = service.transferNFT(nft, address(this), to, which);
    }

    function sendErc(address to, uint256 amount) external {
        require(IERC20(token).transfer(to, amount), "not sent");
    }

    function pull(address from, uint256 amount) external {
        require(IERC20(token).transferFrom(from, address(this), amount), "not pulled");
    }

    // pullOther takes from a token that the contract has nothing to do with.
    function pullOther(address other, address from, address to, uint256 amount) external {
        require(IERC20(other).transferFrom(from, to, amount), "not pulled");
    }

    function sendAndRevert(address to, int64 amount) external {
        code = service.transferToken(token, address(this), to, amount);
        require(false, "after all not");
    }

    // tryToSend catches the failure of a call of itself, which moved tokens before.
    function tryToSend(address to, int64 amount) external {
        try this.sendAndRevert(to, amount) {
            code = success;
        } catch {
            code = -1;
        }
    }

    function associateFor(address account) external {
        code = service.associateToken(account, token);
    }

    function freeze(address account) external {
        code = service.freezeToken(token, account);
    }

    function wipe(address account, int64 amount) external {
        code = service.wipeTokenAccount(token, account, amount);
    }

    function balance(address account) external view returns (uint256) {
        return IERC20(token).balanceOf(account);
    }

    function codeSize() external view returns (uint256 size) {
        address where = token;
        assembly {
            size := extcodesize(where)
        }
    }

    // byDelegate calls the service in the contract's own name, which the service refuses.
    function byDelegate() external returns (bool ok) {
        (ok,) = address(0x167).delegatecall(abi.encodeCall(ITokenService.isToken, (token)));
    }

    // byStatic mints where nothing may change.
    function byStatic() external view returns (bool ok) {
        (ok,) = address(0x167).staticcall(abi.encodeCall(ITokenService.mintToken, (token, int64(1), new bytes[](0))));
    }
}

// TokenMaker creates a token while it is created itself.
contract TokenMaker is TokenUser {
    constructor() payable {
        (code, token) = service.createFungibleToken{value: msg.value}(describe("Made at birth"), 77, 0);
    }
}
