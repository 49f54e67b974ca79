// Compiles the contracts named in the input: {task, directory, files} -> {name: {abi, bytecode}}.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import solc from 'solc';
import { run } from './task.mjs';

function compile({ directory, files }) {
  const sources = Object.fromEntries(
    files.map((file) => [file, { content: readFileSync(join(directory, file), 'utf8') }]),
  );
  const settings = {
    // The newest instruction set that the network executes.
    evmVersion: 'cancun',
    optimizer: { enabled: true, runs: 200 },
    outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object'] } },
  };
  const output = JSON.parse(solc.compile(JSON.stringify({ language: 'Solidity', sources, settings })));
  const problems = output.errors ?? [];
  if (problems.length > 0) throw new Error(problems.map((p) => p.formattedMessage).join('\n'));
  const artifacts = {};
  for (const contracts of Object.values(output.contracts)) {
    for (const [name, { abi, evm }] of Object.entries(contracts)) {
      artifacts[name] = { abi, bytecode: '0x' + evm.bytecode.object };
    }
  }
  return artifacts;
}

await run({ compile });
