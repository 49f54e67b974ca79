require('@nomicfoundation/hardhat-ethers');
require('@nomicfoundation/hardhat-chai-matchers');
const { subtask } = require('hardhat/config');
const { TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD } = require('hardhat/builtin-tasks/task-names');

// The compiler from npm, since there is nothing to download from.
subtask(TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD, async ({ solcVersion }) => ({
  compilerPath: require.resolve('solc/soljson.js'), isSolcJs: true, version: solcVersion, longVersion: require('solc').version(),
}));

module.exports = {
  solidity: { version: '0.8.37', settings: { evmVersion: 'cancun', optimizer: { enabled: true, runs: 200 } } },
  // The defaults are too short for a slow machine.
  networks: { localhost: { url: process.env.RPC_URL ?? 'http://127.0.0.1:7546', timeout: 1_200_000 } },
  mocha: { timeout: 1_200_000 },
  defaultNetwork: 'localhost',
};
