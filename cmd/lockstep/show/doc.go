// Package show writes what happens on a development network to a terminal: each transaction when its block is closed, with
// the names of contracts, methods and errors that a Hardhat or Foundry project has, and what a contract says with console.log.
package show
