import { fileURLToPath } from 'node:url';
import ethers from '@nomicfoundation/hardhat-ethers';
import matchers from '@nomicfoundation/hardhat-ethers-chai-matchers';
import helpers from '@nomicfoundation/hardhat-network-helpers';
import mocha from '@nomicfoundation/hardhat-mocha';

export default {
  plugins: [ethers, matchers, helpers, mocha],
  solidity: {
    version: '0.8.37', path: fileURLToPath(import.meta.resolve('solc/soljson.js')),
    settings: { evmVersion: 'cancun', optimizer: { enabled: true, runs: 200 } },
  },
  // The defaults are too short for a slow machine.
  networks: { localhost: { type: 'http', url: process.env.RPC_URL ?? 'http://127.0.0.1:7546', timeout: 1_200_000 } },
  test: { mocha: { timeout: 1_200_000 } },
};
