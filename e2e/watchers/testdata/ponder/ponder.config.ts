import { createConfig } from "ponder";
import { parseAbi } from "viem";

export default createConfig({
  chains: { anvil: { id: 31337, rpc: process.env.RPC_URL!, disableCache: false } },
  contracts: {
    Token: {
      chain: "anvil",
      abi: parseAbi(["event Transfer(address indexed from, uint256 indexed id, uint256 amount)"]),
      address: process.env.CONTRACT as `0x${string}`,
      startBlock: 1,
    },
  },
});
